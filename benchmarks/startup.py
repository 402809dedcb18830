"""How long `certify --help` and loading the pytest plug-in take, as whole processes; exit 1 where help is slow."""

import statistics
import subprocess
import sys
import time

RUNS = 10
HELP_CEILING_S = 0.3  # beyond it a command feels slow; the median of `certify --help` decides
COMMANDS = {
    "certify --help": ("-m", "certify", "--help"),
    "import certify.plugin": ("-c", "import certify.plugin"),
}


def seconds(arguments: tuple[str, ...]) -> float:
    """The wall time of one interpreter from start to end."""
    started = time.perf_counter()
    subprocess.run((sys.executable, *arguments), check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - started


def main() -> int:
    """Measure, print a table, compare."""
    timings = {}
    for name, arguments in COMMANDS.items():
        seconds(arguments)  # compiles and fills the page cache
        timings[name] = [seconds(arguments) for _ in range(RUNS)]
    print(f"{'seconds, n = ' + str(RUNS):<24}{'min':>8}{'median':>8}{'max':>8}")
    for name, values in timings.items():
        print(f"{name:<24}{min(values):>8.3f}{statistics.median(values):>8.3f}{max(values):>8.3f}")
    slow = statistics.median(timings["certify --help"]) > HELP_CEILING_S
    print(f"certify --help: {'MORE THAN' if slow else 'within'} {HELP_CEILING_S} s")
    return int(slow)


if __name__ == "__main__":
    sys.exit(main())
