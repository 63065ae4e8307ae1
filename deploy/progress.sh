#!/usr/bin/env bash
# Whatever takes longer than three seconds says how long it has taken: bash deploy/progress.sh WHAT COMMAND...
# Sourced, it gives the function, for commands that are functions themselves.

with_progress() { # WHAT COMMAND...
    local what=$1 began=$SECONDS ticker code
    shift
    echo "$what"
    tell_time "$what" &
    ticker=$!
    # When the shell ends too, as an error inside makes it.
    # shellcheck disable=SC2064  # this ticker, not the next one
    trap "end_ticker $ticker" EXIT
    "$@"
    code=$? # is not 0 only where the caller asks for it, with || or if
    trap - EXIT
    end_ticker $ticker
    [ $((SECONDS - began)) -lt 3 ] || echo "$what: took $((SECONDS - began)) s"
    return $code
}

tell_time() { # WHAT
    local seconds
    for ((seconds = 1; ; seconds++)); do
        sleep 1 >/dev/null 2>&1 # holds no pipe open that somebody waits at
        if ((seconds == 3 || seconds % 10 == 0)); then echo "$1: $seconds s so far"; fi
    done
}

end_ticker() { # PID
    { kill "$1" && wait "$1"; } 2>/dev/null || true
}

if [ "${BASH_SOURCE[0]}" = "$0" ]; then
    set -euo pipefail
    with_progress "$@"
fi
