# Sourced by ci/test, ci/demo and .ci/run: makes what they run in.

section() { printf '\n== %s ==\n' "$*"; }

# The newest interpreter on PATH that is new enough; PYTHON overrides the choice.
find_python() {
  local candidate
  for candidate in ${PYTHON:-python3 python3.14 python3.13 python3.12 python3.11}; do
    if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
      echo "$candidate"
      return
    fi
  done
  echo "ci: gradlib needs Python 3.11 or newer; found none (set PYTHON to one)" >&2
  return 1
}

# A later interpreter than the oldest that is supported, where there is one, also among those that pyenv keeps; else any.
find_later_python() {
  local candidate
  for candidate in python3.12 python3.13 python3.14 "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3.1[2-9]*/bin/python; do
    if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 12))' 2>/dev/null; then
      echo "$candidate"
      return
    fi
  done
  find_python
}

# make_environment FOLDER EXTRAS: FOLDER holds gradlib[EXTRAS], installed in editable form.
# It is kept while pyproject.toml, the interpreter, the extras and the checkout's place stay the same.
make_environment() {
  local folder=$1 extras=$2 python stamp
  python=$(find_python)
  stamp=$({ cat pyproject.toml; "$python" -VV; echo "$extras"; pwd -P; } | "$python" -c \
    'import hashlib, sys; print(hashlib.sha256(sys.stdin.buffer.read()).hexdigest())')
  if [ "$(cat "$folder/stamp" 2>/dev/null)" = "$stamp" ]; then
    echo "reusing $folder"
    return
  fi
  echo "making $folder with $("$python" -V): gradlib[$extras]"
  rm -rf "$folder"
  "$python" -m venv "$folder"
  "$folder/bin/python" -m pip install --quiet --disable-pip-version-check -e ".[$extras]"
  echo "$stamp" >"$folder/stamp"
}

# The tests look at the profiler's page in Chromium where there is one; root on a Debian gets it, once.
install_chromium() {
  local name log
  for name in chromium chromium-browser google-chrome google-chrome-stable chrome; do
    if command -v "$name" >/dev/null; then return; fi
  done
  if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then return; fi
  log=$(mktemp)
  if DEBIAN_FRONTEND=noninteractive timeout 600 sh -c \
    'apt-get update -qq && apt-get install -qq -y --no-install-recommends chromium' >"$log" 2>&1 </dev/null; then
    echo "installed $(command -v chromium)"
  else
    echo "Chromium could not be installed, its tests are left out: $(tail -n 1 "$log")"
  fi
  rm -f "$log"
}
