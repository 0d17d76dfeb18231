"""How numbers are rounded where the hardware is not plain IEEE: narrow formats, tensor core sums, approximations."""
