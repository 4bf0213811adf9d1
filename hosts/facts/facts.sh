#!/bin/sh
# Prints what a host is and how it fares, as framed sections for hosts/facts/parse.py.
# Runs under dash, busybox ash and bash, without root, without arguments, and changes nothing.
# PIHERDER_FACTS_LIMIT and _BUDGET: seconds that one command and all of them may take.
# PIHERDER_FACTS_ROOT: a folder that tests put before /boot, /etc, /run and /sys.
set -u
LC_ALL=C
export LC_ALL
unset LANGUAGE
PATH="${PATH:-/usr/bin:/bin}:/usr/local/sbin:/usr/sbin:/sbin:/usr/bin:/bin:/opt/vc/bin"
limit="${PIHERDER_FACTS_LIMIT:-5}"
root="${PIHERDER_FACTS_ROOT:-}"
budget="${PIHERDER_FACTS_BUDGET:-20}"

seconds() {
    now=0
    IFS=' .' read -r now _ </proc/uptime || :
}

has() {
    command -v "$1" >/dev/null 2>&1
}

# One command that may hang. When it was ended, or the whole script has used up its time, the section (descriptor 3) says so.
run() {
    seconds
    code=124
    if [ "$((now - started))" -lt "$budget" ]; then
        $guard "$@" 3>&-
        code=$?
    fi
    case "$code" in
    124 | 137) printf '\n@@piherder late %s\n' "$1" >&3 ;;
    esac
    return "$code"
}

# A file of a few short lines, without a program: hosts that are asked every few minutes feel each one.
lines() {
    [ -r "$1" ] || return
    count=0
    line=
    while IFS= read -r line || [ -n "$line" ]; do
        printf '%s\n' "$line"
        count=$((count + 1))
        [ "$count" -lt 200 ] || return 0
    done <"$1"
}

# systemd's own test, see sd_booted(3); its programs only fail where it does not run.
has_systemd() {
    [ -d "$root/run/systemd/system" ]
}

section() {
    "show_$1"
    printf '\n@@piherder end %s %s\n' "$1" "$?"
}

# Sections of programs that could print without end. The end marker is inside the bounded pipe, so that a section that
# was cut has none.
framed() {
    printf '\n@@piherder begin %s\n' "$1"
    case "$1" in
    temperature | throttled | failed_units | clock | addresses | docker) section "$1" | head -c 16384 ;;
    *) section "$1" ;;
    esac 3>&1 2>/dev/null </dev/null
}

show_os() {
    lines "$root/etc/os-release" || lines "$root/usr/lib/os-release" || return
    if [ -e "$root/etc/rpi-issue" ]; then
        echo PIHERDER_RASPBERRY=yes
    fi
    if has pveversion; then
        printf 'PIHERDER_PROXMOX=%s\n' "$(run dpkg-query -W -f '${Version}' pve-manager)"
    fi
}

show_kernel() {
    names="$(uname -nrm)" || return # uname(1) prints them in this order
    release="${names#* }"
    printf '%s\n%s\n%s\n' "${release%% *}" "${release#* }" "${names%% *}"
}

show_userland() {
    has dpkg && run dpkg --print-architecture
}

show_model() {
    for name in sys_vendor product_name; do
        if [ -r "$root/sys/class/dmi/id/$name" ]; then
            line=
            IFS= read -r line <"$root/sys/class/dmi/id/$name"
            printf '%s=%s\n' "$name" "$line"
        fi
    done
    if [ -r "$root/proc/device-tree/model" ]; then
        line=
        IFS= read -r line <"$root/proc/device-tree/model" # without the NUL at its end, as shells read
        printf 'device_tree=%s\n' "$line"
    fi
}

show_cpus() {
    nproc || getconf _NPROCESSORS_ONLN
}

show_load() {
    lines /proc/loadavg
}

show_memory() {
    while read -r name rest; do
        case "$name" in
        MemTotal: | MemFree: | MemAvailable: | Buffers: | Cached: | SwapTotal:) printf '%s %s\n' "$name" "$rest" ;;
        SwapFree:) printf '%s %s\n' "$name" "$rest" && return ;;
        esac
    done </proc/meminfo
}

show_uptime() {
    lines /proc/uptime && date +%s
}

show_boot_id() {
    lines /proc/sys/kernel/random/boot_id
}

# Network, overlay and snap mounts are never touched: a dead server would hold the caller.
is_disk() {
    case "$2" in
    / | /var/lib/docker | /var/lib/containers) return 0 ;;
    /var/lib/docker/* | /var/lib/containers/* | /var/lib/kubelet/* | /snap/* | /var/snap/*) return 1 ;;
    esac
    case "$1" in
    /dev/loop*) return 1 ;;
    esac
    case "$3" in
    ext[234] | xfs | btrfs | vfat | exfat | f2fs | zfs | ntfs | ntfs3 | fuseblk | jfs | bcachefs | hfsplus | nilfs2) return 0 ;;
    esac
    return 1
}

# One line per mount: its line of /proc/mounts, then what statfs says about it.
show_disks() {
    count=0
    while read -r device mount type options _; do
        is_disk "$device" "$mount" "$type" || continue
        count=$((count + 1))
        [ "$count" -le 40 ] || break
        path="$mount"
        case "$mount" in
        *\\*) path="$(printf '%b' "$(printf '%s' "$mount" | sed 's/\\/\\0/g')")" ;;
        esac
        numbers="$(run stat -f -c '%S %b %f %a %c %d' -- "$path")" || numbers=unknown
        printf '%s %s %s %s %s\n' "$device" "$mount" "$type" "$options" "$numbers"
    done <"$root/proc/self/mounts"
}

# Options of /etc/fstab can hold passwords: only the mount points that are meant to be read-only are told.
show_meant_read_only() {
    [ -r "$root/etc/fstab" ] || return 0
    while read -r device mount _ options _; do
        case "$device" in
        \#*) continue ;;
        esac
        case ",${options:-}," in
        *,ro,*) printf '%s\n' "$mount" ;;
        esac
    done <"$root/etc/fstab"
}

show_temperature() {
    for name in "$root"/sys/class/thermal/thermal_zone*/temp "$root"/sys/class/hwmon/hwmon*/temp1_input; do
        [ -e "$name" ] || continue
        run grep -Hs . "$root"/sys/class/thermal/thermal_zone*/type "$root"/sys/class/thermal/thermal_zone*/temp \
            "$root"/sys/class/hwmon/hwmon*/name "$root"/sys/class/hwmon/hwmon*/temp1_input | head -n 200
        break
    done
    if has vcgencmd; then
        run vcgencmd measure_temp
    fi
    return 0
}

show_throttled() {
    if has vcgencmd && run vcgencmd get_throttled; then
        return 0
    fi
    lines "$root/sys/devices/platform/soc/soc:firmware/get_throttled"
}

show_failed_units() {
    has_systemd && has systemctl && run systemctl list-units --state=failed --plain --no-legend --no-pager --full
}

show_clock() {
    if has_systemd && has timedatectl; then
        run timedatectl show -p NTPSynchronized || run timedatectl status
    fi
    if has chronyc; then
        run chronyc -n tracking
    fi
    return 0
}

show_reboot_flag() {
    for name in "$root/run/reboot-required" "$root/var/run/reboot-required"; do
        if [ -e "$name" ]; then
            printf 'flag=%s\n' "$(run stat -c %Y "$name")"
            [ -r "$name.pkgs" ] && sort -u "$name.pkgs" | head -n 50 | sed 's/^/package=/'
            return 0
        fi
    done
}

# The time of modules.dep is when the kernel was installed.
show_kernels() {
    for name in "$root"/boot/vmlinuz-*; do
        [ -e "$name" ] && printf 'image %s\n' "${name##*/vmlinuz-}"
    done
    set -- "$root"/lib/modules/*/modules.dep
    [ -e "$1" ] || return 0
    run stat -c '%Y %n' -- "$@" | while read -r time name; do
        version="${name%/modules.dep}"
        printf 'modules %s %s\n' "${version##*/}" "$time"
    done
    return 0
}

show_addresses() {
    if has ip; then
        run ip -o addr show | head -n 100
    else
        printf 'list %s\n' "$(run hostname -I)"
    fi
}

show_route() {
    awk '$2 == "00000000" && $8 == "00000000" { print "4", $1, $7 }
        $1 == "00000000000000000000000000000000" && $2 == "00" && $10 != "lo" { print "6", $10, $6 }' \
        /proc/net/route /proc/net/ipv6_route
    return 0
}

show_docker() {
    if has docker; then
        printf 'docker=%s\n' "$(run docker --version)"
        printf 'compose-plugin=%s\n' "$(run docker compose version --short)"
    fi
    if has docker-compose; then
        printf 'docker-compose=%s\n' "$(run docker-compose --version | head -n 1)"
    fi
    return 0
}

show_tools() {
    for name in apt-get dnf yum zypper pacman apk opkg rsync flock python3 systemctl timeout sudo; do
        has "$name" && printf '%s\n' "$name"
    done
    has_systemd && echo systemd-running
    return 0
}

show_rsync() {
    has rsync || return 0
    run rsync --version | head -n 1
}

# The id itself stays on the host: it is a secret that others derive keys from.
show_machine() {
    [ -s "$root/etc/machine-id" ] || return 0
    { printf 'piherder-machine:' && lines "$root/etc/machine-id"; } | sha256sum
}

main() {
    guard=
    if timeout -k 1 1 true; then
        guard="timeout -k 1 $limit"
    elif timeout 1 true; then
        guard="timeout $limit"
    fi 2>/dev/null
    seconds
    started=$now
    for part in os kernel userland model cpus load memory uptime boot_id disks meant_read_only temperature throttled \
        failed_units clock reboot_flag kernels addresses route docker tools rsync machine; do
        framed "$part"
    done
}

# Called last, so that a script that arrived cut does nothing.
main
