# Copyright The Fairway Authors
# SPDX-License-Identifier: Apache-2.0
#
# Functions for a process in a mount namespace of its own. They never write to the
# machine's folders: a folder that is missing there is made in a shadow of its parent.
# FOLDER names a folder of the caller for mounts on their way.

# private DIR: DIR is an empty folder that only this namespace sees, whether or not
# the machine has one.
private() {
  if [ ! -d "$1" ]; then
    shadow "$(dirname "$1")"
    mkdir "$1"
  fi
  mount -n -t tmpfs -o mode=755 tmpfs "$1"
}

# present FILE TEXT: FILE is there; in place of one that the machine lacks, or that is a
# link to nothing, this namespace has one with the text.
present() {
  [ ! -e "$1" ] || return 0
  shadow "$(dirname "$1")"
  rm -f "$1"
  echo "$2" >"$1"
}

# shadow DIR: a tmpfs with the same entries takes the place of DIR. What is added to
# it later exists in this namespace only.
shadowed=
shadow() {
  case "$shadowed" in *"|$1|"*) return ;; esac
  shadowed="$shadowed|$1|"
  if [ ! -d "$1" ]; then
    shadow "$(dirname "$1")"
    mkdir "$1"
    return
  fi
  mkdir -p "$FOLDER/shadow"
  mount -n -t tmpfs -o mode=755 tmpfs "$FOLDER/shadow"
  for entry in "$1"/* "$1"/.[!.]* "$1"/..?*; do
    copy="$FOLDER/shadow/${entry##*/}"
    if [ -L "$entry" ]; then
      cp -P "$entry" "$copy"
      continue
    elif [ -d "$entry" ]; then
      mkdir "$copy"
    elif [ -e "$entry" ]; then
      : >"$copy"
    else
      continue # a pattern without a match
    fi
    mount -n --rbind "$entry" "$copy" || [ ! -e "$entry" ] # it may have gone meanwhile
  done
  mount -n --move "$FOLDER/shadow" "$1"
}
