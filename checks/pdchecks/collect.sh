# Prints what a node's own tools say about it. It only reads, and parses nothing. It comes behind blocks.sh and the
# variables that collector.py sets:
#
#   interval_s              between two readings of the counters, seconds; 0: one reading
#   locales, sysctl_paths, modules, units      words to look at, from the policy
#   sudo_password           what sudo may be answered, where somebody gave it: a variable of this shell, which only its
#                           own printf writes, into sudo's standard input

# root_line COMMAND: as root, or not at all.
root_line() {
    case $privilege in
    root) look_line "$1" ;;
    sudo) look_as "sudo -n sh -c '$1'" sudo -n $bounded sh -c "$1" ;;
    password)
        given=$sudo_password
        # What sudo leaves unread, because it remembers, is not for the command.
        look_as "sudo -S sh -c '$1'" sudo -S -p '' $bounded sh -c "exec </dev/null; $1"
        given=
        ;;
    *) block "$1" 126 "pdctl: needs root, and $refused" ;;
    esac
}

# Whether sudo gives root: without a question, or for the password that came with this script.
ask_sudo() {
    run "$command_s" sudo -n true
    case $status in
    0) privilege=sudo ;;
    '') refused="sudo gave no answer within $command_s s" ;;
    *) refused='sudo asks for a password' ;;
    esac
    [ -n "${sudo_password-}" ] && [ -n "$status" ] && [ "$status" != 0 ] || return 0
    # Another printf than the shell's own would show it to everybody who lists processes.
    if [ "$(command -v printf)" != printf ]; then
        refused='this sh has no printf of its own, through which alone sudo is given its password'
        return
    fi
    given=$sudo_password
    run "$command_s" sudo -S -p '' true
    given=
    if [ "$status" = 0 ]; then
        privilege=password
    else
        refused="sudo did not take the password: ${answer##*"$newline"}"
    fi
}

# root_tool TOOL ARGUMENT...: the same for one tool that may be absent.
root_tool() {
    if has "$1"; then root_line "$*"; else block "$*" 127 "pdctl: $1 is not installed"; fi
}

# count COMMAND TOOL ARGUMENT...: a reading of counters. The second one says how long it came after the first.
count() {
    clock
    reading=$1
    shift
    if [ "$round" = 1 ]; then
        taken="$taken$now "
    else
        after=$((now - ${taken%% *}))
        taken=${taken#* }
        hundredths=$((after % 100))
        [ "$hundredths" -gt 9 ] || hundredths=0$hundredths
        reading="sleep $((after / 100)).$hundredths; $reading"
    fi
    look_as "$reading" "$@"
}

# paths PATTERN...: those that exist, at most 64; not those with a name that a shell would read as more than a name.
paths() {
    set +f
    for path in $*; do
        case $path in *[!A-Za-z0-9_.:@/+-]*) continue ;; esac
        [ -e "$path" ] && printf '%s\n' "$path"
    done | head -n 64
    set -f
}

read_counters() {
    round=$1
    for path in $netdevs; do
        netdev=${path#/sys/class/net/}
        netdev=${netdev%/device}
        if has ethtool; then count "ethtool -S $netdev" ethtool -S "$netdev"; fi
    done
    for port in $ports; do
        line="grep -sH '' $port/counters/* $port/hw_counters/*"
        count "$line" sh -c "$line"
    done
}

counters() {
    netdevs=$(paths '/sys/class/net/*/device')
    ports=$(paths '/sys/class/infiniband/*/ports/*')
    taken=
    read_counters 1
}

# As much of the interval as the rest of the collection has not taken.
counters_again() {
    [ -n "$taken" ] && [ "$interval_s" -gt 0 ] || return 0
    clock
    pause=$(((interval_s * 100 - now + ${taken%% *} + 99) / 100))
    left=$(((ends - now) / 100))
    [ "$pause" -le "$left" ] || pause=$left
    [ "$pause" -le 0 ] || sleep "$pause"
    read_counters 2
}

system() {
    look uname -srm
    look cat /proc/uptime
    look_line 'cat /etc/os-release'
    look timedatectl show -p NTPSynchronized -p NTP
    if has chronyc; then look chronyc -n tracking; fi
    look_line 'grep -i huge /proc/meminfo'
    look_line 'cat /proc/self/limits'
    look systemctl show -p DefaultLimitMEMLOCK -p DefaultLimitMEMLOCKSoft -p DefaultLimitNOFILE -p DefaultLimitNOFILESoft
    look systemctl show -p Id,LoadState,ActiveState,SubState,UnitFileState,NeedDaemonReload,Result,MainPID,NRestarts -- $units
    # What an engine's unit grants now, and what its process was given when it started.
    look systemctl show -p Id,MainPID,LimitMEMLOCK,LimitMEMLOCKSoft,LimitNOFILE,LimitNOFILESoft -- 'pdctl-*.service'
    for pid in $(printf '%s\n' "$answer" | sed -n 's/^MainPID=\([1-9][0-9]*\)$/\1/p' | head -n 64); do
        look_line "cat /proc/$pid/limits"
    done
    # A key that the kernel does not show is grep's line of error.
    look_as 'grep -H . /proc/sys (sysctl keys of the policy)' grep -H . $sysctl_paths
    look_line 'grep -sH . /proc/sys/net/ipv[46]/neigh/*/base_reachable_time_ms'
    look_line 'grep -nsHE "^ *-?[a-z].*=" /etc/sysctl.conf /etc/sysctl.d/*.conf /run/sysctl.d/*.conf /usr/local/lib/sysctl.d/*.conf /usr/lib/sysctl.d/*.conf'
}

kernel_modules() {
    look lsmod
    for module in $modules; do look modinfo -p "$module"; done
    if has modprobe; then look_line 'modprobe -c | grep ^options'; else look modprobe -c; fi
}

# What a boot loads modules with: an initramfs has its own copy of modprobe.d, as old as itself.
options_at_boot() {
    { read -r release </proc/sys/kernel/osrelease; } 2>/dev/null || return 0
    folders=$(paths '/etc/modprobe.d /run/modprobe.d /usr/local/lib/modprobe.d' | tr '\n' ' ')
    [ -n "$folders" ] || return 0
    for image in $(paths "/boot/initrd.img-$release /boot/initramfs-$release.img"); do
        look_line "find -L $folders-name '*.conf' -newer $image -exec grep -H '^ *options' {} +"
        [ -n "$answer" ] || continue
        lister=lsinitramfs
        has $lister || lister=lsinitrd
        if has $lister; then root_line "$lister $image | grep -o '[^/]*\.ko[.a-z0-9]*\$'"; else look $lister; fi
    done
}

# What drivers, verbs and libraries are made of: a package that changed explains what a node did not do before.
packages() {
    names='rdma-core libibverbs* ibverbs-* librdmacm* perftest ucx* mlnx-* doca-* kmod-mlnx* nvidia-driver* nvidia-fabricmanager* cuda-drivers* libnccl* linux-image-* kernel-core* iproute* ethtool'
    if has dpkg-query; then look dpkg-query -W $names; elif has rpm; then look rpm -qa $names; fi
}

node_locale() {
    look locale -a
    configured=
    for path in $(paths /etc/default/locale /etc/locale.conf /etc/sysconfig/i18n); do
        look cat "$path"
        found=$(sed -n 's/^ *\(export  *\)\{0,1\}LANG=["'\'']\{0,1\}\([A-Za-z0-9_.@-]*\).*/\2/p' "$path" | head -n 1)
        configured=${configured:-$found}
    done
    [ -n "$(paths /etc/default/locale /etc/locale.conf /etc/sysconfig/i18n)" ] || look cat /etc/default/locale
    for name in ${configured:-C} $locales; do
        case " ${shown-} " in *" $name "*) continue ;; esac
        shown="${shown-} $name"
        look_as "LC_ALL=$name locale charmap" env "LC_ALL=$name" locale charmap
    done
}

package_manager() {
    files=$(paths /etc/yum.conf /etc/dnf/dnf.conf '/etc/yum.repos.d/*.repo' '/etc/yum/vars/*' '/etc/dnf/vars/*')
    has yum || has dnf || [ -n "$files" ] || return 0
    [ -z "$files" ] || look grep -naH '[^[:print:][:space:]]' $files
    look cat /usr/local/sbin/safe_yum
    for python in $(paths /usr/libexec/platform-python /usr/bin/python3 /usr/bin/python); do
        has dnf && look "$python" -c 'import dnf' && return
    done
}

python_versions() {
    for python in $(paths /usr/libexec/platform-python /usr/bin/python3 '/usr/bin/python3.[0-9]*' '/usr/local/bin/python3'); do
        case $python in *-config) continue ;; esac
        look "$python" -V
    done
    [ -n "${python-}" ] || look python3 -V
}

engines() {
    # Deployments of this user without systemd: what their supervisors wrote, which processes live, what they said.
    urls=
    for path in $(paths "${XDG_STATE_HOME:-$HOME/.local/state}/pdctl/deployments/*/status.json"); do
        look cat "${path%/status.json}/record.json"
        urls="$urls $(printf '%s\n' "$answer" | sed -n 's/.*"url": *"\(http:\/\/127\.0\.0\.1:[0-9][0-9]*\)".*/\1/p' | sort -u | head -n 8)"
        look cat "$path"
        pids=$(printf '%s\n' "$answer" | sed -n 's/.*"pid": *\([0-9][0-9]*\).*/\/proc\/\1/p' | sort -u | head -n 64)
        [ -z "$pids" ] || look ls -d $pids
        look_line "tail -q -n 300 ${path%/status.json}/logs/*.log"
    done
    metrics
    # Never a secret that stands in a command line.
    if has systemctl; then
        look_line "systemctl show -p Id -p ExecStart -- 'vllm*' 'sglang*' 'pdctl-*' | sed -E 's/(--([a-z-]*-)?(key|token|secret|password|credentials?)[= ])[^ ;]+/\\1(kept-back)/g'"
    fi
    has journalctl || return 0
    # Old systemd takes no pattern for a unit that never ran; it then prints nothing.
    root_line "journalctl -q --no-pager -o cat --since=-24h -u 'pdctl-*' -u 'vllm*' | tail -n 2000"
}

# What these engines count; read again at the end, to see what moved in between.
metrics() {
    for url in $urls; do look curl -sS --noproxy '*' --max-time 5 "$url/metrics"; done
}

network() {
    look ip addr show
    look ip neigh show
    look ip route show
    look ip rule show
    has lldpctl && root_tool lldpctl
    has ethtool || look ethtool
    has mlnx_qos || look mlnx_qos
    if has mlnx_qos || has dcb; then
        look_line "grep -rlsE 'mln[x]_qos|[d]cb (pfc|app|buffer)|pdctl[/-]qo[s]' /etc/systemd/system /usr/lib/systemd/system /etc/udev/rules.d /usr/lib/udev/rules.d /etc/rc.local /etc/rc.d/rc.local /etc/network /etc/NetworkManager/dispatcher.d /etc/networkd-dispatcher /usr/local/sbin /etc/systemd/system/multi-user.target.wants/pdctl-qos.service"
    fi
    for path in $netdevs; do
        path=${path%/device}
        netdev=${path##*/}
        if has ethtool; then
            look ethtool "$netdev"
            for option in -i -a -g -k; do look ethtool "$option" "$netdev"; done
        fi
        has mlnx_qos && look mlnx_qos -i "$netdev"
        for object in pfc app buffer dcbx ets; do
            has dcb && look dcb "$object" show dev "$netdev"
        done
        for folder in $(paths "$path/ecn/roce_np" "$path/ecn/roce_rp"); do look_line "grep -rsH '' $folder"; done
        [ -d "$path/qos" ] && look_line "grep -rsH '' $path/qos"
    done
}

rdma_devices() {
    if [ ! -d /sys/class ] && [ "$(uname -s)" = Linux ]; then
        block 'ls /sys/class/infiniband' 126 'pdctl: sysfs is not mounted here'
    else
        look ls /sys/class/infiniband
    fi
    [ -n "$(paths '/sys/class/infiniband/*')" ] || return 0
    look rdma link show
    look ibstat
    look ibv_devinfo -v
    has show_gids && look show_gids
    for path in $(paths '/sys/class/infiniband/*'); do
        look_line "grep -sH '' $path/fw_ver $path/board_id $path/hca_type $path/tc/*/traffic_class"
        for port in $(paths "$path/ports/*"); do
            look_line "grep -sH '' $port/state $port/phys_state $port/rate $port/link_layer $port/lid $port/gids/* $port/gid_attrs/types/* $port/gid_attrs/ndevs/*"
        done
    done
    look_line "grep -sH '' /sys/kernel/mm/memory_peers/*/*"
    look_line "grep -sH '' /sys/kernel/config/rdma_cm/*/ports/*/default_roce_tos"
    root_line "grep -sH '' /sys/kernel/debug/mlx5/*/cc_params/np_cnp_*"
    look devlink dev info
    for path in $(paths '/sys/class/infiniband/*/device'); do
        address=$(cd -P "$path" && printf '%s' "${PWD##*/}")
        if has mlxconfig; then
            root_tool mlxconfig -d "$address" -e query
        elif has mstconfig; then
            root_tool mstconfig -d "$address" -e query
        fi
    done
}

pci() {
    for path in $(paths '/sys/bus/pci/devices/*'); do
        class= vendor=
        { read -r class <"$path/class" && read -r vendor <"$path/vendor"; } 2>/dev/null
        case $class:$vendor in
        0x03*:0x10de) gpus="${gpus-} $path/vendor" links="${links-} $path/*_link_*" ;;
        0x02*) links="${links-} $path/*_link_*" ;;
        esac
    done
    [ -z "${links-}" ] || look_line "grep -sH ''$links"
    [ -z "${gpus-}" ] || look grep -H '' $gpus
    if ! has lspci; then
        look lspci
    elif [ -n "${links-}" ]; then
        root_line "lspci -Dvvv | grep -E '^[0-9a-f]|LnkCap:|LnkSta:|ACSCtl:|RlxdOrd'"
    fi
}

gpu() {
    has nvidia-smi || [ -n "${gpus-}" ] || return 0
    look nvidia-smi -L
    # One unknown name fails a whole query, so names that drivers renamed or lack stand apart.
    look nvidia-smi --query-gpu=index,uuid,pci.bus_id,name,driver_version,memory.total,memory.used,memory.free,compute_mode,persistence_mode --format=csv
    look nvidia-smi --query-gpu=index,uuid,mig.mode.current --format=csv
    look nvidia-smi --query-gpu=index,uuid,ecc.mode.current,ecc.errors.uncorrected.volatile.total,ecc.errors.uncorrected.aggregate.total --format=csv
    look nvidia-smi --query-remapped-rows=gpu_uuid,remapped_rows.correctable,remapped_rows.uncorrectable,remapped_rows.pending,remapped_rows.failure --format=csv
    look nvidia-smi --query-compute-apps=gpu_uuid,pid,process_name,used_gpu_memory --format=csv
    # Only this one variable: an environment may hold secrets.
    for pid in $(printf '%s\n' "$answer" | sed -n 's/^[^,]*, *\([0-9][0-9]*\),.*/\1/p' | sort -u | head -n 64); do
        line="tr '\\0' '\\n' </proc/$pid/environ | grep ^CUDA_VISIBLE_DEVICES="
        if [ -r "/proc/$pid/environ" ]; then look_line "$line"; elif [ -d "/proc/$pid" ]; then root_line "$line"; fi
    done
}

kernel_log() {
    log='dmesg | tail -n 4000'
    restricted=1
    [ -r /proc/sys/kernel/dmesg_restrict ] && read -r restricted </proc/sys/kernel/dmesg_restrict
    most=524288
    if [ "$restricted" = 0 ]; then look_line "$log"; else root_line "$log"; fi
    if has journalctl; then
        root_line 'journalctl -q --no-pager -o short-iso --since=-24h -u systemd-networkd -u NetworkManager | tail -n 2000'
    fi
}

main() {
    prepare || return 0
    privilege=none
    refused='sudo is absent'
    if [ "$(id -u)" = 0 ]; then
        privilege=root
    elif has sudo; then
        ask_sudo
    fi
    block 'pdctl-collect begin' 0 "version 1 epoch $started uid $(id -u) privilege $privilege"
    # When whoever looks asked, by his own clock: what the clocks of two nodes are compared through.
    [ -z "${asked-}" ] || block "date +%s   # asked at $asked" 0 "$started"
    # What the session was given is the node's; everything after speaks C, so that readers can read it.
    look locale
    look locale charmap
    LC_ALL=C
    LANGUAGE=
    export LC_ALL LANGUAGE PATH
    counters
    node_locale
    system
    kernel_modules
    options_at_boot
    packages
    python_versions
    package_manager
    network
    rdma_devices
    pci
    gpu
    kernel_log
    engines
    counters_again
    metrics
    block 'pdctl-collect end' 0 "seconds $(($(date +%s) - started))"
}

main
