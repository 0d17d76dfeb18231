"""Roles and passes of the backward that every target shares."""
