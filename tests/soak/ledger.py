"""What a server acknowledged, and whether what it holds now fits that.

Each write gives a key a new version: a positive number, or a negative one for
a deletion. The ledger knows per key the last version that was acknowledged and
those that were sent since without an answer. A server that was killed may have
any of these, and nothing else.

SPDX-License-Identifier: MIT
"""


class Ledger:
    def __init__(self):
        self._acknowledged, self._unanswered = {}, {}

    def sent(self, key, version):
        self._acknowledged.setdefault(key, 0)
        self._unanswered.setdefault(key, []).append(version)

    def acknowledged(self, key):
        """The oldest write without an answer got one."""
        self._acknowledged[key] = self._unanswered[key].pop(0)

    def refused(self, key):
        """The oldest write without an answer got an error: it has no effect."""
        self._unanswered[key].pop(0)

    def keys(self):
        return list(self._acknowledged)

    def judge_running(self, key, found):
        """A server that goes on answers in order: the key has exactly the version
        that was acknowledged last. `found` is 0 for a key that is not there."""
        expected = max(self._acknowledged.get(key, 0), 0)
        return None if found == expected else f"{key}: version {found} is there, {expected} was acknowledged"

    def judge_restarted(self, key, found):
        """After the server was killed, a write that was sent without an answer may
        have happened too. From now on what was found is what holds."""
        last = self._acknowledged[key]
        allowed = {max(version, 0) for version in [last] + self._unanswered.get(key, [])}
        self._acknowledged[key], self._unanswered[key] = found, []
        if found in allowed:
            return None
        return f"{key}: version {found} is there after a restart, {max(last, 0)} was acknowledged"

    def clear(self):
        self._acknowledged.clear()
        self._unanswered.clear()
