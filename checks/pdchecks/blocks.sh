# Prints what commands of a node say, as evidence blocks (evidence.py), each bounded in time and in size.
# POSIX sh; dash, bash and busybox run it. It is fed to `sh -s` behind the variables that collector.py sets:
#
#   command_s, total_s      bounds on one command and on the whole run, seconds
#   most                    bound on one command's output, bytes
#
# No answer is an answer: exit status 127 (not installed), 126 (needs root) or 124 (out of time) with one line
# `pdctl: REASON`. A tool that cannot even be killed is left behind without holding up the rest.

set -f
PATH=$PATH:/usr/local/sbin:/usr/local/bin:/usr/sbin:/sbin:/usr/bin:/bin:/opt/mellanox/iproute2/sbin
newline='
'

# Runs "$@" and prints its output and, on a line of its own, its exit status. $1: bytes, of which one more tells that there
# were more. Whatever it started ends with it, or when its time is up: by the timeout(1) of GNU coreutils, which kills the whole
# of its process group, ...
worker='
most=$1
shift
cap() {
    head -c "$((most + 1))"
    # Most outputs are at their end here, and cost no process.
    ! read -r more || cat >/dev/null
}
{
    status=$( { { "$@" 2>&1 3>&- 4>&-; echo $? >&3; } | cap >&4 3>&-; } 3>&1 )
} 4>&1
printf "\n%s" "$status"
exec </dev/null >/dev/null 2>&1
trap "" TERM
'
# ... or, where there is none, by a watch in a session of its own. $1: seconds.
watch='
seconds=$1
shift
{ sleep "$seconds"; kill -s KILL -- -$$ || kill -s KILL $$; } </dev/null >/dev/null 2>&1 &
'

# block COMMAND STATUS OUTPUT
block() {
    printf '=== cmd: %s\n=== rc: %s\n' "$1" "$2"
    case $newline$3 in
    # A line of output must not look like a line of ours.
    *"$newline==="*) printf '%s\n' "$3" | sed 's/^===/ &/' ;;
    "$newline") ;;
    *) printf '%s\n' "$3" ;;
    esac
    printf '=== end\n'
}

# Sets `now`: hundredths of a second since the machine was started; whole seconds where the kernel does not say.
clock() {
    if read -r now _ </proc/uptime; then now=${now%.*}${now#*.}; else now=$(date +%s)00; fi
} 2>/dev/null

has() {
    command -v "$1" >/dev/null 2>&1
}

# watched TOOL ARGUMENT...: takes the place of this process, for `limit` seconds at most.
watched() {
    if [ -n "$grouped" ]; then
        exec timeout -s KILL "$limit" sh -c "$worker kill -s TERM 0" pdctl "$most" "$@"
    else
        exec $session sh -c "$watch$worker kill -s TERM -- -\$\$ || kill -s TERM \$!" pdctl "$limit" "$most" "$@"
    fi
}

# run SECONDS TOOL ARGUMENT...: its output in `answer` and its exit status in `status`, which is empty where it gave no
# answer in time. It reads what `given` holds.
run() {
    limit=$1
    shift
    # The redirection silences the shell, which reports every process that was killed.
    if [ -n "$given" ]; then
        { answer=$(printf '%s\n' "$given" | watched "$@"); } 2>/dev/null
    else
        { answer=$(watched "$@" </dev/null); } 2>/dev/null
    fi
    status=${answer##*"$newline"}
    case $status in
    *[!0-9]*) status= ;;
    ?*)
        answer=${answer%"$newline$status"}
        if [ "${#answer}" -gt "$most" ]; then
            answer=$(printf '%s' "$answer" | head -c "$most")"${newline}pdctl: output cut at $most bytes"
        fi
        while [ "${answer%"$newline"}" != "$answer" ]; do answer=${answer%"$newline"}; done
        ;;
    esac
}

# look_as COMMAND TOOL ARGUMENT...: COMMAND is what the block is called.
look_as() {
    label=$1
    shift
    if ! has "$1"; then
        block "$label" 127 "pdctl: $1 is not installed"
        return
    fi
    case " $hung " in
    *" $1 "*)
        block "$label" 124 "pdctl: not run, $1 gave no answer before"
        return
        ;;
    esac
    clock
    left=$(((ends - now) / 100))
    if [ "$left" -le 0 ]; then
        block "$label" 124 "pdctl: not run, the collection's $total_s s were used up"
        return
    fi
    [ "$left" -le "$command_s" ] || left=$command_s
    run "$left" "$@"
    if [ -n "$status" ]; then
        block "$label" "$status" "$answer"
    else
        block "$label" 124 "pdctl: no answer within $left s"
        # One that hangs once hangs again; a line for the shell may hang for another reason.
        [ "$1" = sh ] || hung="$hung $1"
    fi
}

look() {
    look_as "$*" "$@"
}

# A command line with pipes or patterns. look_line COMMAND
look_line() {
    look_as "$1" sh -c "$1"
}

# Sets what the functions above work with. False, after a block that says so, on a node without a system's tools.
prepare() {
    hung=
    given=
    missing=
    for tool in cat date grep head id sed sleep sort tail wc; do has "$tool" || missing="$missing $tool"; done
    if [ -n "$missing" ]; then
        block 'pdctl-collect begin' 127 "pdctl: cannot look, not installed:$missing"
        return 1
    fi
    started=$(date +%s)
    clock
    ends=$((now + total_s * 100))
    # A child of sudo is root's: only root's own timeout can end it.
    bounded=
    has timeout && bounded="timeout -s KILL $command_s"
    grouped=
    # Others of that name kill the process that they started, and not what that started.
    case $(timeout --version 2>/dev/null) in *'GNU coreutils'*) grouped=yes ;; esac
    if has setsid; then
        session=setsid
    else
        session=$bounded
    fi
}
