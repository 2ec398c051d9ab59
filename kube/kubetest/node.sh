# Copyright The Fairway Authors
# SPDX-License-Identifier: Apache-2.0
#
# The first process of a real node, in namespaces for mounts and processes of
# its own. When it ends, so does all it started, and no mount is left.
set -eu

# The kubelet, containerd, the network plugins and mount(8) write to fixed places.
. "$FOLDER/private.sh"
for folder in /var/lib/kubelet /var/lib/cni /var/log /run/containerd /run/mount; do private "$folder"; done

# containerd copies these into pods, and looks localhost up to forward a port.
present /etc/hosts "127.0.0.1 localhost"
present /etc/resolv.conf ""

# The kubelet sets these for the whole machine. Here it finds them set.
mkdir "$FOLDER/sysctl"
for setting in vm/overcommit_memory=1 vm/panic_on_oom=0 kernel/panic=10 kernel/panic_on_oops=1 kernel/keys/root_maxkeys=1000000 kernel/keys/root_maxbytes=25000000; do
  file="/proc/sys/${setting%=*}"
  [ -e "$file" ] || continue
  pretended="$FOLDER/sysctl/$(echo "${setting%=*}" | tr / -)"
  echo "${setting#*=}" >"$pretended"
  mount --bind "$pretended" "$file"
done

containerd --config "$FOLDER/containerd.toml" >"$FOLDER/containerd.log" 2>&1 &
while [ ! -S "$FOLDER/containerd.sock" ]; do sleep 0.05; done

"$KUBELET" --config "$FOLDER/kubelet.yaml" --kubeconfig "$FOLDER/kubeconfig" \
  --hostname-override "$NODE" --node-ip "$ADDRESS" >"$FOLDER/kubelet.log" 2>&1 &
kubelet=$!
wait "$kubelet" && status=0 || status=$?
echo "the kubelet ended with status $status:"
tail -n 5 "$FOLDER/kubelet.log"
exit 1
