#!/bin/sh
# Lockkeeper: for a template with change_mode = "script". Registers that this task wants to be restarted (signalled, replaced) and
# returns at once; lockkeeper does it when its turn comes. Asked again meanwhile, it is the same request.
#
#   change_mode = "script"
#   change_script {
#     command = "/bin/sh"
#     args    = ["-c", "exec sh $NOMAD_TASK_DIR/change-script.sh"]
#   }
#
# (deploy/examples/change-script.nomad.hcl is a whole job. To signal on this change alone: "LOCKKEEPER_ACTION=signal exec sh …".)
#
# Needs curl or wget, and from the environment (Nomad gives a script that of its task):
#
#   LOCKKEEPER_ADDR        the service: URL[,URL...], or @FILE with the same in it (http://127.0.0.1:4650); the first one that answers
#   LOCKKEEPER_ACTION      restart, signal or replace (restart)
#   LOCKKEEPER_SIGNAL      with signal: which one (SIGHUP)
#   LOCKKEEPER_COMPONENT   another semaphore than that of the group as a whole
#   LOCKKEEPER_REASON      why, for people
#   LOCKKEEPER_TOKEN_FILE  the workload identity (${NOMAD_SECRETS_DIR}/nomad_lockkeeper.jwt, when it is there)
#   LOCKKEEPER_FAIL_ON_ERROR=true
#                          exit code 1 when nothing could be registered; together with fail_on_error of Nomad's change_script the task
#                          then fails. Else 0: a service that is away must not take the task down. What is lost then is this
#                          one change: where that matters let the service watch the file (meta lockkeeper_watch).
#
# It waits for at most 2 s for each address. With wget the identity is seen in the list of processes meanwhile; with curl it is not.

set -f # An address is never a pattern.
not_registered() {
  printf 'lockkeeper: not registered: %s\n' "$1" >&2
  case ${LOCKKEEPER_FAIL_ON_ERROR:-} in '' | 0 | false) exit 0 ;; *) exit 1 ;; esac
}

# One member of a JSON object, with a comma before it; nothing when the value is empty.
member() {
  [ -n "$2" ] || return 0
  printf ',"%s":"%s"' "$1" "$(printf '%s' "$2" | tr '\001-\037\177' ' ' | sed 's/["\\]/\\&/g')"
}

# The end of this second on this host, whose clock the start of the task is told by as well. What it was started with cannot be newer
# than the render, and that was before now. Rounded up: a start in this very second counts as older, so at worst the
# task is restarted once too often; rounded down a change could be taken for loaded that was not.
since=$(date -u +%Y-%m-%dT%H:%M:%S.999Z)

[ -n "${NOMAD_ALLOC_ID:-}" ] || not_registered 'NOMAD_ALLOC_ID is not set; this runs inside a Nomad task'
action=${LOCKKEEPER_ACTION:-restart}
signal=
[ "$action" != signal ] || signal=${LOCKKEEPER_SIGNAL:-SIGHUP}
body="{$(
  {
    member allocation "$NOMAD_ALLOC_ID"
    member task "${NOMAD_TASK_NAME:-}"
    member component "${LOCKKEEPER_COMPONENT:-}"
    member action "$action"
    member signal "$signal"
    member since "$since"
    member reason "${LOCKKEEPER_REASON:-a template was rendered anew}"
  } | sed 's/^,//'
)}"

token=
token_file=${LOCKKEEPER_TOKEN_FILE:-${NOMAD_SECRETS_DIR:-/secrets}/nomad_lockkeeper.jwt}
[ ! -r "$token_file" ] || token=$(cat "$token_file")

if command -v curl >/dev/null; then
  register() {
    { [ -z "$token" ] || printf 'header = "Authorization: Bearer %s"\n' "$token"; } |
      curl --config - --silent --show-error --fail --connect-timeout 1 --max-time 2 \
        --request PUT --header 'Content-Type: application/json' --data-binary "$body" "$1"
  }
elif command -v wget >/dev/null; then
  # Busybox's wget knows no PUT, so the service takes a POST as well; and it does not have -T everywhere.
  bounded=
  ! command -v timeout >/dev/null || bounded='timeout 2'
  register() {
    set -- -q -O - --header 'Content-Type: application/json' --post-data "$body" "$1"
    [ -z "$token" ] || set -- --header "Authorization: Bearer $token" "$@"
    $bounded wget "$@"
  }
else
  not_registered 'neither curl nor wget is there'
fi

addresses=${LOCKKEEPER_ADDR:-http://127.0.0.1:4650}
case $addresses in @*) addresses=$(cat "${addresses#@}") ;; esac
for address in $(printf '%s' "$addresses" | tr ',' ' '); do
  if answer=$(register "${address%/}/v1/requests"); then
    printf 'lockkeeper: registered: %s\n' "$answer"
    exit 0
  fi
done
not_registered 'no replica of the service has taken it'
