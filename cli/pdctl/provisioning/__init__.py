"""Runs a playbook over an inventory and says for every host how it ended.

`provision` (run.py) is the entry: it opens a record, lets `runner` drive ansible-runner, folds the event stream with
`outcome`, and returns a `Report`. Nothing here prints; `render` turns a report into text or JSON.
"""
