"""What a request is, described by code: the scope around it, a request recorded by hand, its inputs and size.

The folder's name is a plural because ``ragmeter.request`` is a public function.
"""
