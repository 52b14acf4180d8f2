"""Errors a user can cause and mend."""


class UserError(ValueError):
    """Something to tell the user in one line: what is wrong, and what to do."""


class NotInstalled(UserError):
    """A world whose package is an extra that is not there."""


class TooManyTiles(UserError):
    """More different tiles than can be told apart. It comes again whenever the same is played."""


class GateError(UserError):
    """An encoder that shows too little to train a policy on."""
