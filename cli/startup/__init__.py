"""The folder at the beginning of an unchanged program's import path."""
