"""Describe a request in code: the scope around it, recording by hand, its inputs and size.

The folder's name is plural because ``ragmeter.request`` is a public function.
"""
