"""The one kind of error a user can cause and mend."""


class UserError(ValueError):
    """Something to tell the user in one line: what is wrong, and what to do."""
