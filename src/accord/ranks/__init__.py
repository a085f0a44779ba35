"""Processes that train one model together: who they are, how they talk, and which rows of a table each has.

A process alone is a group of one, and nothing here costs it anything.
"""
