"""Recorded outputs of the facts script, composed from the documented formats of the programs behind each section."""

RASPBERRY = {
    "os": """PRETTY_NAME="Debian GNU/Linux 12 (bookworm)"
NAME="Debian GNU/Linux"
VERSION_ID="12"
VERSION="12 (bookworm)"
VERSION_CODENAME=bookworm
ID=debian
PIHERDER_RASPBERRY=yes""",
    "kernel": "6.6.20+rpt-rpi-v8\naarch64\nattic",
    "userland": "arm64",
    "model": "device_tree=Raspberry Pi 4 Model B Rev 1.4",
    "cpus": "4",
    "load": "0.52 0.58 0.59 1/234 5678",
    "memory": """MemTotal:        3884356 kB
MemFree:          187532 kB
MemAvailable:    2913267 kB
Buffers:          101000 kB
Cached:          2500000 kB
SwapTotal:        102396 kB
SwapFree:         102396 kB""",
    "uptime": "1041234.56 4012345.67\n1740000000",
    "boot_id": "0f3c1a52-7a0e-4a63-9d5e-0d6a7c3f9b11",
    "disks": """/dev/mmcblk0p2 / ext4 rw,noatime 4096 7500000 4700000 4387500 1900000 1710000
/dev/mmcblk0p1 /boot/firmware vfat rw,relatime,errors=remount-ro 4096 130000 113000 113000 0 0
/dev/sda1 /srv/my\\040data ext4 ro,relatime,errors=remount-ro 4096 1000000 50000 50000 60000 59000
/dev/mmcblk0p2 /var/lib/docker/btrfs ext4 rw,noatime 4096 7500000 4700000 4387500 1900000 1710000""",
    "meant_read_only": "",
    "temperature": """/sys/class/thermal/thermal_zone0/type:cpu-thermal
/sys/class/thermal/thermal_zone0/temp:48312
/sys/class/hwmon/hwmon0/name:cpu_thermal
/sys/class/hwmon/hwmon0/temp1_input:48312
/sys/class/hwmon/hwmon1/name:rp1_adc
/sys/class/hwmon/hwmon1/temp1_input:61000
temp=48.7'C""",
    "throttled": "throttled=0x50005",
    "failed_units": "zigbee2mqtt.service loaded failed failed zigbee2mqtt",
    "clock": "NTPSynchronized=yes",
    "reboot_flag": "",
    "kernels": """image 6.6.20+rpt-rpi-2712
image 6.6.20+rpt-rpi-v8
image 6.6.31+rpt-rpi-2712
image 6.6.31+rpt-rpi-v8
modules 6.6.20+rpt-rpi-v8 1710000000
modules 6.6.31+rpt-rpi-v8 1739990000""",
    "addresses": r"""1: lo    inet 127.0.0.1/8 scope host lo\       valid_lft forever preferred_lft forever
2: eth0    inet 192.0.2.10/24 brd 192.0.2.255 scope global dynamic noprefixroute eth0\       valid_lft 80000sec
2: eth0    inet6 2001:db8::10/64 scope global dynamic mngtmpaddr \       valid_lft 7000sec preferred_lft 3000sec
2: eth0    inet6 2001:db8::abcd/64 scope global temporary dynamic \       valid_lft 7000sec preferred_lft 3000sec
2: eth0    inet6 fe80::1/64 scope link \       valid_lft forever preferred_lft forever
4: docker0    inet 172.17.0.1/16 brd 172.17.255.255 scope global docker0\       valid_lft forever
5: br-0123456789ab    inet 172.18.0.1/16 brd 172.18.255.255 scope global br-0123456789ab\       valid_lft forever""",
    "route": "4 wlan0 600\n4 eth0 100",
    "docker": "docker=Docker version 27.1.1, build 6312585\ncompose-plugin=2.29.1\n"
    "docker-compose=docker-compose version 1.29.2, build unknown",
    "tools": "apt-get\nrsync\nflock\npython3\nsystemctl\ntimeout\nsudo\nsystemd-running",
    "rsync": "rsync  version 3.2.7  protocol version 31",
    "machine": "a" * 64 + "  -",
}

UBUNTU = RASPBERRY | {
    "os": """PRETTY_NAME="Ubuntu 20.04.6 LTS"
NAME="Ubuntu"
VERSION_ID="20.04"
VERSION_CODENAME=focal
ID=ubuntu
ID_LIKE=debian""",
    "kernel": "6.8.0-60-generic\nx86_64\nweb",
    "userland": "amd64",
    "model": "sys_vendor=LENOVO\nproduct_name=10MQS0UN00",
    "disks": "/dev/mapper/ubuntu--vg-root / ext4 rw,relatime 4096 100000 5000 2000 1000 50",
    "temperature": "/sys/class/hwmon/hwmon2/name:k10temp\n/sys/class/hwmon/hwmon2/temp1_input:55500",
    "throttled": "",
    "failed_units": "",
    "clock": "Leap status     : Not synchronised",
    "reboot_flag": "flag=1739999999\npackage=linux-base\npackage=linux-image-6.8.0-60-generic",
    "kernels": "image 6.8.0-60-generic",
    "docker": "",
}

PROXMOX = UBUNTU | {
    "os": 'PRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\nVERSION_ID="12"\nID=debian\nPIHERDER_PROXMOX=8.2.4',
    "kernel": "6.8.8-2-pve\nx86_64\npve1",
    "model": "sys_vendor=To Be Filled By O.E.M.\nproduct_name=To Be Filled By O.E.M.",
    "disks": """rpool/ROOT/pve-1 / zfs rw,relatime,xattr,posixacl 131072 3000000 2900000 2900000 742000000 741900000
rpool/data /rpool/data zfs rw,relatime,xattr,noacl 131072 2900000 2899999 2899999 742000000 741999994""",
    "clock": "NTPSynchronized=no\nReference ID    : C0A80101\nLeap status     : Normal",
    "reboot_flag": "",
    "kernels": "image 6.5.13-5-pve\nimage 6.8.8-2-pve\nimage 6.8.12-1-pve",
}


def printed(sections: dict[str, str], codes: dict[str, int] | None = None) -> str:
    """Frame sections as the script does."""
    ends = codes or {}
    parts = (
        f"\n@@piherder begin {name}\n{text}\n\n@@piherder end {name} {ends.get(name, 0)}\n"
        for name, text in sections.items()
    )
    return "".join(parts)
