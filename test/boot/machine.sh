#!/bin/sh
# Boots a folder with a Debian in it: systemd as process 1 in namespaces of its own, on the network of this machine.
#   machine.sh ROOT CONSOLE CGROUP
set -eu
root=$1 console=$2 group=$3
mkdir "$group"
echo $$ >"$group/cgroup.procs"
: >"$console"
exec unshare --mount --pid --fork --uts --ipc --cgroup --kill-child sh -eu -c '
  root=$1 console=$2
  mount --make-rprivate /
  mount --bind "$root" "$root"
  mount -t proc proc "$root/proc"
  mount -t sysfs -o ro sysfs "$root/sys"
  mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup"
  for folder in run tmp; do mount -t tmpfs tmpfs "$root/$folder"; done
  mount -t tmpfs -o mode=755 tmpfs "$root/dev"
  for device in null zero full random urandom tty; do
    touch "$root/dev/$device"
    mount --bind "/dev/$device" "$root/dev/$device"
  done
  touch "$root/dev/console"
  mount --bind "$console" "$root/dev/console"
  mkdir "$root/dev/pts" "$root/dev/shm"
  mount -t devpts -o newinstance,ptmxmode=0666,mode=620 devpts "$root/dev/pts"
  mount -t tmpfs tmpfs "$root/dev/shm"
  ln -s pts/ptmx "$root/dev/ptmx"
  ln -s /proc/self/fd "$root/dev/fd"
  hostname boot-test
  exec env -i container=other PATH=/usr/sbin:/usr/bin chroot "$root" /lib/systemd/systemd
' sh "$root" "$console"
