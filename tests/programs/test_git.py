"""git commits, clones, packs, repacks with threads and checks a repository."""
import random

import harness

COMMITS = 25
ENVIRONMENT = {
    "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_NAME": "A", "GIT_AUTHOR_EMAIL": "a@example.org", "GIT_AUTHOR_DATE": "1700000000 +0000",
    "GIT_COMMITTER_NAME": "C", "GIT_COMMITTER_EMAIL": "c@example.org", "GIT_COMMITTER_DATE": "1700000000 +0000",
}


def test(runner):
    harness.require("git")
    repository = runner.directory / "origin"

    def git(*arguments):
        return runner.run("git", "-c", "gc.auto=0", "-c", "pack.threads=4", *arguments, env=ENVIRONMENT).text

    git("init", "-q", "-b", "main", repository)
    draw = random.Random(7)
    for number in range(COMMITS):
        for name in range(30):
            path = repository / f"dir{name % 5}" / f"file{name}.txt"
            path.parent.mkdir(exist_ok=True)
            lines = path.read_text().splitlines() if path.exists() else []
            lines[draw.randint(0, len(lines)):0] = [f"{number} {draw.random()} {'x' * draw.randint(0, 80)}"
                                                    for _ in range(25)]
            path.write_text("\n".join(lines) + "\n")
        git("-C", repository, "add", "-A")
        git("-C", repository, "commit", "-q", "-m", f"commit {number}")

    clone = runner.directory / "clone"
    # By URL, so that the objects go through upload-pack and index-pack.
    git("clone", "-q", f"file://{repository}", clone)
    git("-C", clone, "checkout", "-q", "-b", "side", "HEAD~12")
    (clone / "side.txt").write_text("side\n")
    git("-C", clone, "add", "side.txt")
    git("-C", clone, "commit", "-q", "-m", "side")
    git("-C", clone, "rebase", "-q", "main")
    git("-C", clone, "gc", "-q", "--aggressive", "--prune=now")
    return {
        "log": git("-C", clone, "log", "-p", "--stat", "--all"),
        "objects": git("-C", clone, "cat-file", "--batch-all-objects", "--batch-check"),
        "fsck": git("-C", clone, "fsck", "--full", "--strict"),
        "blame": git("-C", clone, "blame", "main", "--", "dir1/file1.txt"),
        "grep": git("-C", clone, "grep", "-c", "xxx", "main"),
    }


if __name__ == "__main__":
    harness.main(test)
