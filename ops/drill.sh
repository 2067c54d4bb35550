#!/usr/bin/env bash
# Run by a test on both engines, while jobs run.
#
#   drill.sh backup ENGINE FILE      while oncue runs
#   drill.sh restore FILE ENGINE     into a new SQLite file, or an empty PostgreSQL database; no oncue process runs on it
#   drill.sh drill ENGINE SCRATCH    both, into SCRATCH, compared and timed; no job runs, and the backup is deleted
#
# ENGINE and SCRATCH are the URLs that every command takes. Needs `oncue` of the version that runs, or newer; for
# PostgreSQL pg_dump and pg_restore of the server's version, or newer.
set -euo pipefail

case "${1:-} $#" in
  "backup 3") exec oncue backup "$3" --engine "$2" ;;
  "restore 3") exec oncue restore "$2" --engine "$3" ;;
  "drill 3")
    folder=$(mktemp --directory)
    trap 'rm -r "$folder"' EXIT
    oncue backup "$folder/backup" --engine "$2" --drill "$3"
    ;;
  *)
    sed -n 's/^#   //p' "$0" >&2
    exit 2
    ;;
esac
