"""What a request is and how it is found: one reading for every framework, which sources only feed.

Texts, names and times in; question, contexts, stages and answer out.  Imports no framework and no convention.
"""
