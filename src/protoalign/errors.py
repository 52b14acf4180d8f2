"""Errors a user can cause and mend."""


class UserError(ValueError):
    """Something to tell the user in one line: what is wrong, and what to do."""


class GateError(UserError):
    """An encoder that shows too little to train a policy on."""
