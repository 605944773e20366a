"""bash and dash fork for every subshell, pipe and substitution, and read
/proc/self/maps to show that the library is in each."""
import harness

SCRIPT = r"""
total=0
for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
  word=$(printf 'w%s ' $i $i $i | tr -d ' ' | sed 's/w/-/g')
  for j in 1 2 3 4 5; do
    total=$((total + $( (echo $((i * j)) | cat) )))
    (inner=$(echo "$word $j"; (echo deep; (echo deeper))); echo "$inner" | sort | head -n 2)
  done
done
echo "total $total"
for i in 1 2 3 4 5 6 7 8; do (sleep 0.1; exit $i) & done
wait
echo waited
"""
# Separate from the work: what it prints differs between the two runs.
MAPPED = 'case "$(while read -r line; do echo "$line"; done < /proc/self/maps)" in *"$LIBRARY"*) exit 0;; esac; exit 1'


def test(runner):
    outputs = {}
    for shell in ("bash", "dash"):
        harness.require(shell)
        result = runner.run(shell, "-c", SCRIPT)
        outputs.update({f"output of {shell}": result.text, f"stderr of {shell}": result.errors})
        if runner.preloaded:
            runner.run(shell, "-c", MAPPED, env={"LIBRARY": str(runner.library)})
    return outputs


if __name__ == "__main__":
    harness.main(test)
