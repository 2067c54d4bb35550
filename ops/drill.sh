#!/usr/bin/env bash
# Run by a test on both engines, while jobs run.
#
#   drill.sh backup ENGINE FILE      while oncue runs
#   drill.sh restore FILE ENGINE     into a new SQLite file, or an empty PostgreSQL database; no oncue process runs on it
#   drill.sh drill ENGINE SCRATCH    both, into SCRATCH, and how long each step takes; no job runs
#
# ENGINE is sqlite:////abs.db, or postgresql://… with parameters of libpq only. Needs sqlite3, or pg_dump, pg_restore and
# psql of the server's version or newer; and `oncue` of the version that wrote the backup, or newer.
set -euo pipefail

fail() { echo "drill.sh: $*" >&2; exit 1; }

engine_of() {
  case $1 in
    sqlite:///*) echo sqlite ;;
    postgresql://* | postgres://*) echo postgres ;;
    *) fail "ENGINE is sqlite:///… or postgresql://…, not '$1'" ;;
  esac
}

backup() {
  local engine=$1 file=$2 kind
  kind=$(engine_of "$engine")
  [ ! -e "$file" ] || fail "$file exists; name another file"
  umask 077
  if [ "$kind" = sqlite ]; then
    [ -e "${engine#sqlite:///}" ] || fail "there is no database ${engine#sqlite:///}"
    sqlite3 -bail "${engine#sqlite:///}" ".timeout 10000" ".backup '$file'"
    [ "$(sqlite3 "$file" 'pragma quick_check')" = ok ] || fail "the backup is damaged; keep the one before it"
  else
    pg_dump --format=custom --file="$file" --dbname="$engine"
    pg_restore --list "$file" >/dev/null
  fi
}

restore() {
  local file=$1 engine=$2 kind
  kind=$(engine_of "$engine")
  [ -s "$file" ] || fail "there is no backup $file"
  if [ "$kind" = sqlite ]; then
    local database=${engine#sqlite:///} old
    for old in "$database" "$database-wal" "$database-shm"; do # an old -wal would be written over the restored file
      [ ! -e "$old" ] || fail "$old exists; move it away"
    done
    install -m 600 "$file" "$database"
  else
    [ "$(ask "$engine" "select to_regclass('oncue_migrations') is null")" = t ] || fail "the database is not empty"
    pg_restore --exit-on-error --single-transaction --no-owner --dbname="$engine" "$file"
    ask "$engine" analyze >/dev/null
  fi
  oncue migrate --engine "$engine" --data-dir "${TMPDIR:-/tmp}"
}

ask() { psql --no-psqlrc --quiet --tuples-only --no-align --set=ON_ERROR_STOP=1 --command="$2" "$1"; }

timed() {
  local name=$1 began=${EPOCHREALTIME/[.,]/} tenths
  shift
  "$@"
  tenths=$(((${EPOCHREALTIME/[.,]/} - began) / 100000))
  printf '%-8s %d.%d s\n' "$name" $((tenths / 10)) $((tenths % 10))
}

drill() {
  folder=$(mktemp --directory)
  trap 'rm -r "$folder"' EXIT
  timed backup backup "$1" "$folder/backup"
  printf '%-8s %s\n' size "$(du --human-readable "$folder/backup" | cut -f1)"
  timed restore restore "$folder/backup" "$2"
}

case ${1:-} in
  backup | restore | drill) [ $# -eq 3 ] || fail "$1 takes two arguments"; "$@" ;;
  *) sed -n 's/^#   //p' "$0" >&2; exit 2 ;;
esac
