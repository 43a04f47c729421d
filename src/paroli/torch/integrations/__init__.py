"""Callbacks that put the averaged weights in place when other people's trainers look.

Each file imports the library it is for, and nothing imports the files but those who want them.
"""
