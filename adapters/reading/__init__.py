"""The parts of a request and the rules that find them: the same for every framework; sources only record.

Texts, names and times in; question, contexts, stages and answer out.  Imports no framework and no convention.
"""
