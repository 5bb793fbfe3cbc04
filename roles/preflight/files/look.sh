# Prints what a node is, before anything is touched; it only reads. POSIX sh. Each line of ours begins with `pdctl: `, so
# that what a login shell prints of its own is told apart. $@: the Pythons to try.
PATH=$PATH:/usr/sbin:/sbin
say() { printf 'pdctl: %s\n' "$*"; }

say begin
say kernel "$(uname -s)"
say machine "$(cat /proc/sys/kernel/random/boot_id 2>/dev/null)" \
    "$(readlink /proc/self/ns/pid 2>/dev/null)" "$(readlink /proc/self/ns/net 2>/dev/null)" "$(uname -n)"
sed -n 's/^\(ID\|ID_LIKE\|PRETTY_NAME\)=/pdctl: os \1 /p' /etc/os-release 2>/dev/null
for python; do
    if answer=$("$python" -c 'import sys, json, platform; print("%d.%d" % sys.version_info[:2])' 2>&1); then
        say python "$answer" "$python"
        break
    fi
    say broken "$python:" "$(printf '%s\n' "$answer" | tail -n 1)"
done
for path in / /etc /usr/local /var/lib /tmp; do
    [ -d "$path" ] || continue
    # With -P each file system is one line: device, size, used, free, share, where it is mounted.
    set -- $(df -Pk "$path" 2>/dev/null | tail -n 1)
    [ $# -ge 6 ] || continue
    free=$4 at=$6
    set -- $(df -Pi "$path" 2>/dev/null | tail -n 1)
    inodes=${4:-?} total=${2:-?}
    # The last line of a mount point is the file system that is seen there.
    options=$(sed -n "s|^[^ ]* $at [^ ]* \([^ ]*\) .*|\1|p" /proc/mounts 2>/dev/null | tail -n 1)
    say disk "$path" "$at" "$free" "$inodes" "$total" "${options:-?}"
done
say end
