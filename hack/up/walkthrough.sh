#!/usr/bin/env bash
# Shows what binaries do, in the cluster of KUBECONFIG: for each named binary, applies its examples, waits for the result and prints it.
# `make up` calls it with the name of each binary that it has started. A line that begins with "# " names a step; the other lines belong
# to it, and those with tabs are rows of a table.
#   KUBECTL      the kubectl to use (default: kubectl)
#   OWN_CLUSTER  not empty if the cluster belongs to the user
set -euo pipefail
shopt -s inherit_errexit
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

kubectl() { command "${KUBECTL:-kubectl}" "$@"; }

apply() { kubectl apply --server-side --force-conflicts --field-manager=espalier-up "$@" >/dev/null; }

step() { printf '# %s\n' "$*"; }

fail() {
  printf '%s\n' "$*" >&2
  exit 1
}

# await <seconds> <what> <command>…: repeats a command until it succeeds, and prints its output.
await() {
  local limit=$1 what=$2 end=$((SECONDS + $1)) answer
  shift 2
  until answer=$("$@" 2>&1); do
    [ "$SECONDS" -lt "$end" ] || fail "wait for $what: not within $limit s: $answer"
    sleep 0.1
  done
  printf '%s\n' "$answer"
}

# verdict <refusal> <command>…: prints the API server's answer to a request. It fails unless that contains the refusal, or the request is
# allowed if the refusal is empty.
verdict() {
  local refusal=$1 answer
  shift
  if answer=$("$@" 2>&1); then
    [ -z "$refusal" ] || fail "it is allowed, and should be refused: $refusal"
    echo allowed
    return
  fi
  [[ -n $refusal && $answer =~ ^(Error from server|The request is invalid|The [A-Za-z]+ \") ]] || fail "$answer"
  [[ $answer == *"$refusal"* ]] || fail "it is refused, but not as it should be ($refusal): $answer"
  printf 'refused: %s\n' "$(sed -E 's/^Error from server( \([A-Za-z]+\))?: //' <<<"$answer" | paste -s -d ' ')"
}

# since <time>: prints the seconds since a time of EPOCHREALTIME.
since() {
  local now=$EPOCHREALTIME
  echo "$((${now/[.,]/} - ${1/[.,]/}))" | awk '{printf "%.2fs\n", $1 / 1000000}'
}

# ago <hours>: prints the time before that many hours.
ago() { date --utc --date="$1 hours ago" +%FT%TZ; }

# condition <namespace> <ManagedResource> <type> <status>: waits until a condition has a status for the current generation.
condition() {
  local text="{range .status.conditions[?(@.type==\"$3\")]}{.reason}: {.message}{end}"
  kubectl -n "$1" wait managedresource "$2" --for="condition=$3=$4" --timeout=60s >"$scratch/wait" 2>&1 ||
    fail "$(<"$scratch/wait"): $3 ($(kubectl -n "$1" get managedresource "$2" -o jsonpath="$text"))"
  step "ManagedResource $1/$2: $3 is $4 ($(kubectl -n "$1" get managedresource "$2" -o jsonpath="$text"))"
}

# objects <namespace> <ManagedResource>: reads every object that the status lists.
objects() {
  local version kind namespace name group state
  printf 'KIND\tNAMESPACE\tNAME\tSTATE\n'
  kubectl -n "$1" get managedresource "$2" \
    -o go-template='{{range .status.resources}}{{.apiVersion}} {{.kind}} {{or .namespace "-"}} {{.name}}{{"\n"}}{{end}}' >"$scratch/objects"
  while read -r version kind namespace name; do
    [[ $version == */* ]] && group=.${version#*/}.${version%/*} || group=
    [ "$namespace" != - ] || namespace=
    state=$(kubectl ${namespace:+--namespace="$namespace"} get "$kind$group" "$name" --ignore-not-found \
      -o go-template-file=hack/up/state.gotemplate)
    printf '%s\t%s\t%s\t%s\n' "$kind" "$namespace" "$name" "${state:-missing}"
  done <"$scratch/objects"
}

# repaired <text> <changed> <restored> <change> <object>…: watches an object while a command changes it, and prints for how long it was
# changed. Changed and restored are patterns for an event of the watch and the number of pears in the object.
repaired() {
  local text=$1 changed=$2 restored=$3 change=$4 line begin="" end=""
  shift 4
  coproc watched { exec "${KUBECTL:-kubectl}" get "$@" --watch --output-watch-events -o jsonpath='{.type} {.object.data.pears}{"\n"}'; }
  local id=$watched_PID changing
  read -r -t 30 line <&"${watched[0]}" || fail "watch $*: no answer"
  $change >/dev/null & # the times are those of the events, so they are read meanwhile
  changing=$!
  while [ -z "$end" ] && read -r -t 30 line <&"${watched[0]}"; do
    # shellcheck disable=SC2254 # they are patterns
    case $line in
      $changed) begin=$EPOCHREALTIME ;;
      $restored) [ -z "$begin" ] || end=$EPOCHREALTIME ;;
    esac
  done
  wait "$changing" || fail "show drift repair: $text: the request was refused"
  [ -n "$end" ] || fail "show drift repair: $text: not restored within 30 s"
  kill "$id" && wait "$id" 2>/dev/null || true
  echo "$text: restored after $(((${end/[.,]/} - ${begin/[.,]/}) / 1000)) ms"
}

# events: lists the Events about ManagedResources of the example, each with a key that changes when the Event occurs again.
events() {
  kubectl -n orchard get events -o go-template='{{range .items}}{{if eq .involvedObject.kind "ManagedResource"}}{{.metadata.uid -}}
/{{.metadata.resourceVersion}} {{.reason}}: {{.message}}{{"\n"}}{{end}}{{end}}' | sort
}

# new_events <known>: prints the Events that are not in the known ones, as soon as there are two.
new_events() {
  local now
  now=$(comm -13 <(printf '%s\n' "$1") <(events))
  [ "$(grep -c . <<<"$now")" -ge 2 ] && cut -d ' ' -f 2- <<<"$now" | sed 's/^/Event /'
}

edit_harvest() { kubectl -n orchard patch configmap harvest --type=merge --field-manager=other-client -p '{"data":{"pears":"0"}}'; }
delete_notes() { kubectl -n orchard delete configmap notes --wait=false; }
delete_class() { kubectl delete priorityclass gardener-garden-system-100 --wait=false; }

managedresource-controller() {
  local example=examples/first-managedresource.yaml known plan status=0
  step "applying $example"
  apply -f "$example"
  condition orchard first ResourcesApplied True
  if [ -z "${OWN_CLUSTER:-}" ]; then # these depend on the Deployment
    condition orchard first ResourcesHealthy True
    condition orchard first ResourcesProgressing False
  fi
  objects orchard first

  step "drift repair: now another client changes two of these objects"
  known=$(events)
  repaired "edited ConfigMap harvest (pears: 0)" "MODIFIED 0" "MODIFIED 12" edit_harvest -n orchard configmap harvest
  repaired "deleted ConfigMap notes" "DELETED*" "ADDED*" delete_notes -n orchard configmap notes
  (await 2 Events new_events "$known" 2>/dev/null) || true # they are written asynchronously; tests check them

  step 'plan: what would happen if the Secret said pears: "15"? (managedresource-controller diff)'
  plan=$(sed 's/pears: "12"/pears: "15"/' "$example" | env --unset=KUBECONFIG bin/managedresource-controller diff -f - \
    --config .local/managedresource-controller/config.yaml 2>&1) || status=$?
  [ "$status" = 1 ] || fail "show plan: expected it to find a change: $plan" # 1 means that something would change, as with kubectl diff
  sed 's/^/  /' <<<"$plan"
}

token-controllers() {
  step "tokens: applying examples/token.yaml"
  apply -f examples/token.yaml
  local token user
  token=$(await 30 "token in Secret orchard/picker" picker_token)
  user=$(kubectl create -f - -o jsonpath='{.status.user.username}' <<<'{"apiVersion":"authentication.k8s.io/v1","kind":"TokenReview",
    "metadata":{},"spec":{"token":"'"$token"'"}}')
  [ -n "$user" ] || fail "the API server does not accept the token of Secret orchard/picker"
  echo "Secret picker has a token; the API server authenticates it as \"$user\""
  echo "it will be renewed at $(kubectl -n orchard get secret picker \
    -o jsonpath='{.metadata.annotations.serviceaccount\.resources\.gardener\.cloud/token-renew-timestamp}')"
}

picker_token() { kubectl -n orchard get secret picker -o go-template='{{if .data.token}}{{.data.token | base64decode}}{{end}}' | grep .; }

csr-approver() {
  if [ -n "${OWN_CLUSTER:-}" ]; then
    step "serving certificates: on a cluster of yours csr-approver only observes, and nothing is asked of it"
    return
  fi
  step "serving certificates: the kubelet of node fake-0 requests those of examples/kubelet-certificates.yaml"
  local created requests asked answer
  created=$(kubectl create --as=system:node:fake-0 --as-group=system:nodes --as-group=system:authenticated -o name \
    -f examples/kubelet-certificates.yaml)
  mapfile -t requests <<<"$created"
  for asked in "[fake-0] [192.0.2.1]" "[fake-0 kubernetes.default.svc] [192.0.2.1]"; do
    answer=$(await 30 "an answer to ${requests[0]}" csr_answer "${requests[0]}")
    echo "for $asked: $answer"
    requests=("${requests[@]:1}")
  done
}

csr_answer() {
  kubectl get "$1" -o go-template='{{range .status.conditions}}{{if eq .type "Denied"}}denied: {{.message}}{{end}}{{end -}}
{{if .status.certificate}}approved, and the certificate was issued{{end}}' | grep .
}

netpol-controller() {
  step "network policies: applying examples/network-policies.yaml"
  apply -f examples/network-policies.yaml
  local policies # within the namespace, from the other namespace, and from anywhere
  policies=$(await 30 "5 NetworkPolicies of Service stall" five_policies)
  printf 'NAMESPACE\tNETWORKPOLICY\tPODS\n%s\n' "$policies"
}

five_policies() {
  local policies
  policies=$(kubectl get networkpolicies --all-namespaces -l networking.resources.gardener.cloud/service-name=stall -o go-template='
{{- range .items}}{{.metadata.namespace}}{{"\t"}}{{.metadata.name}}{{"\t"}}{{$comma := "" -}}
{{range $key, $value := .spec.podSelector.matchLabels}}{{$comma}}{{$key}}={{$value}}{{$comma = ","}}{{end}}{{"\n"}}{{end}}')
  printf '%s\n' "$policies"
  [ "$(wc -l <<<"$policies")" = 5 ]
}

webhook-server() {
  step "admission webhooks: applying examples/webhooks.yaml"
  await 30 "the API server to call the webhooks" press_is_changed >/dev/null
  local applied stored
  applied=$(placement create --dry-run=client -f examples/webhooks.yaml -l high-availability-config.resources.gardener.cloud/type=server)
  stored=$(placement -n cider get deployment press)
  printf 'DEPLOYMENT press\tAS APPLIED\tAS STORED\n'
  paste <(printf '%s\n' replicas zones "topology spread" tolerations) <(printf '%s\n' "$applied") <(printf '%s\n' "$stored")
  local profile
  profile=$(await 30 "a Pod in cider" kubectl -n cider get pods -o jsonpath='{.items[0].spec.securityContext.seccompProfile.type}')
  echo "its Pods have the seccomp profile $profile"
}

press_is_changed() {
  apply -f examples/webhooks.yaml || return
  [ "$(placement -n cider get deployment press | sed -n 3p)" != - ] || fail "the Deployment is stored as it was sent"
}

# placement <command>…: prints replicas, zones, topology spread and tolerations of a Deployment, one per line.
placement() {
  local pod=.spec.template.spec terms=requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms
  kubectl "$@" -o jsonpath="{.spec.replicas}{'\n'}{$pod.affinity.nodeAffinity.$terms[*].matchExpressions[*].values[*]}{'\n'}\
{$pod.topologySpreadConstraints[*].topologyKey}{'\n'}{range $pod.tolerations[*]}{.key} for {.tolerationSeconds} s, {end}{'\n'}" |
    sed -e '2,3s/ /, /g' -e '4s/, $//' -e 's/^$/-/'
}

project-controller() {
  step "projects: applying examples/project.yaml"
  sed 's/^  name: cellar$/  name: try/' examples/project.yaml >"$scratch/try.yaml" # the webhooks record the creator
  await 60 "the API server to call the webhooks" creator_is_recorded >/dev/null
  apply -f examples/project.yaml
  await 60 "Project cellar to be ready" project_ready >/dev/null
  namespace=$(project '{.spec.namespace}')
  echo "Project cellar is Ready; its namespace is $namespace, its owner $(project '{.spec.owner.name}'), its creator $(
    project '{.spec.createdBy.name}')"
  project_members
  project_staleness
  project_deletion
  unused_project
}

creator_is_recorded() { kubectl create --dry-run=server -f "$scratch/try.yaml" -o jsonpath='{.spec.createdBy.name}' | grep .; }

project() { kubectl get project cellar -o jsonpath="$1"; }

# status_of <project> <field>: fails if the field is empty.
status_of() { kubectl get project "$1" -o jsonpath="{.status.$2}" | grep .; }

project_ready() {
  local state
  state=$(project '{.status.phase} of generation {.status.observedGeneration}')
  echo "$state"
  [ "$state" = "Ready of generation $(project '{.metadata.generation}')" ]
}

# try <user> <what> <refusal> <command>…: prints a row with the API server's answer to a request of a user.
try() {
  local user=$1 what=$2 answer
  answer=$(verdict "$3" kubectl --as="$user" "${@:4}" 2>"$scratch/error") || fail "$user tries to $what: $(<"$scratch/error")"
  printf '%s\t%s\t%s\n' "$user" "$what" "$answer"
}

project_members() {
  printf '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"note","namespace":"%s"}}' "$namespace" >"$scratch/note.json"
  local write=(apply --server-side -f "$scratch/note.json")
  local enrol='[{"op":"add","path":"/spec/members/-","value":{"kind":"User","name":"passer-by","role":"admin"}}]'
  local own='[{"op":"replace","path":"/spec/owner/name","value":"%s"}]'
  local patch=(patch project cellar --type=json -p)
  # The API server fills the roles of new members with a short delay.
  await 30 "cooper to become a member" kubectl --as=cooper "${write[@]}" >/dev/null
  step "projects: what its members, and others, may do"
  printf 'WHO\tTRIES TO\tAND IS\n'
  try cooper "write a ConfigMap" "" "${write[@]}"
  try cooper "list Secrets" "" -n "$namespace" get secrets
  try cooper "add a member" "is not allowed to manage human users or groups in .spec.members" "${patch[@]}" "$enrol"
  # shellcheck disable=SC2059 # the format is a constant
  try cooper "become owner" "is not allowed to manage owner in .spec.owner" "${patch[@]}" "$(printf "$own" cooper)"
  try taster "list ConfigMaps" "" -n "$namespace" get configmaps
  try taster "list Secrets" 'cannot list resource "secrets"' -n "$namespace" get secrets
  # shellcheck disable=SC2059
  try taster "become owner" 'cannot patch resource "projects"' "${patch[@]}" "$(printf "$own" taster)"
  try passer-by "read the project" 'cannot get resource "projects"' get project cellar
  try cellarer "add a member" "" "${patch[@]}" "$enrol"
  await 10 "the new member's role" kubectl --as=passer-by get project cellar >/dev/null
  try passer-by "read the project now" "" get project cellar
  local answer
  answer=$(verdict 'you must delete the corresponding project "cellar"' kubectl delete namespace "$namespace" --wait=false)
  echo "an administrator deletes its namespace: $answer"
}

project_staleness() {
  step "projects: nothing in its namespace uses it, so it becomes stale"
  local stale before deletion
  stale=$(await 60 "Project cellar to be stale" status_of cellar staleSinceTimestamp)
  echo "it is stale since $stale"
  before=$(ago 48)
  kubectl patch project cellar --subresource=status --type=merge -p '{"status":{"staleSinceTimestamp":"'"$before"'"}}' >/dev/null
  deletion=$(await 60 "Project cellar to get a date" status_of cellar staleAutoDeleteTimestamp)
  echo "had that been at $before, it would be deleted at $deletion"
  await 30 "an Event about the deletion" forecast "$deletion"
  printf '{"apiVersion":"core.gardener.cloud/v1beta1","kind":"Shoot","metadata":{"name":"barrel","namespace":"%s"},"spec":{}}' \
    "$namespace" >"$scratch/shoot.json" # only an object: there is no controller that creates a cluster for it
  await 60 "Shoot barrel to be accepted" apply --as=cellarer -f "$scratch/shoot.json" >/dev/null
  await 60 "Project cellar to be in use" in_use >/dev/null
  echo "cellarer creates a Shoot: it is in use, and will not be deleted"
}

forecast() {
  kubectl -n default get events --field-selector involvedObject.name=cellar,reason=DeletionForecast \
    -o jsonpath='{range .items[*]}{.message}{"\n"}{end}' | grep --max-count=1 --fixed-strings "$1" | sed 's/^/Event DeletionForecast: /'
}

in_use() { [ -z "$(project '{.status.staleSinceTimestamp}')" ]; }

project_deletion() {
  step "projects: deleting it"
  local delete=(kubectl --as=cellarer delete project cellar --wait=false) answer begin
  answer=$(verdict 'must have a "confirmation.gardener.cloud/deletion" annotation to delete' "${delete[@]}")
  echo "cellarer deletes it: $answer"
  kubectl --as=cellarer annotate project cellar --overwrite confirmation.gardener.cloud/deletion=true >/dev/null
  "${delete[@]}" >/dev/null
  echo "cellarer confirms and deletes it: allowed"
  kubectl wait project cellar --for=jsonpath='{.status.phase}'=Terminating --timeout=60s >/dev/null
  echo "it is Terminating as long as it has a Shoot"
  kubectl --as=cellarer -n "$namespace" delete shoot barrel --wait=false >/dev/null
  begin=$EPOCHREALTIME
  kubectl wait "namespace/$namespace" project/cellar --for=delete --timeout=60s >/dev/null
  echo "cellarer deletes the Shoot: namespace and project are gone after $(since "$begin")"
}

unused_project() {
  step "projects: an unused one whose announced date of deletion has passed"
  local begin
  apply -f - <<<'{"apiVersion":"core.gardener.cloud/v1beta1","kind":"Project","metadata":{"name":"fallow"},"spec":{}}'
  await 60 "Project fallow to be stale" status_of fallow staleSinceTimestamp >/dev/null
  kubectl patch project fallow --subresource=status --type=merge \
    -p '{"status":{"staleSinceTimestamp":"'"$(ago 96)"'","staleAutoDeleteTimestamp":"'"$(ago 24)"'"}}' >/dev/null
  begin=$EPOCHREALTIME
  kubectl wait project fallow --for=delete --timeout=60s >/dev/null
  echo "the controller has deleted it, with its namespace, after $(since "$begin")"
}

garden-operator() {
  # In this one, Services of the virtual cluster have addresses of Pods of the runtime cluster.
  sed 's|100.64.0.0/13|10.2.0.0/16|' examples/garden.yaml >"$scratch/overlap.yaml"
  local overlap="pod network of runtime cluster intersects with service network of virtual cluster" answer
  answer=$(await 60 "the API server to refuse a wrong Garden" verdict "$overlap" apply --dry-run=server -f "$scratch/overlap.yaml")
  step "gardens: an administrator applies one whose networks overlap: $answer"

  apply -f deploy/garden-operator/base/priorityclass.yaml # Pods of the Garden need it; with the Deployment of the operator, it is there
  step "gardens: applying examples/garden.yaml" # a later run has it reconciled again
  sed 's|^  name: orchards$|&\n  annotations: {gardener.cloud/operation: reconcile}|' examples/garden.yaml | apply -f -
  await 180 "the operator to deploy the resource manager and a ManagedResource" kubectl -n garden get managedresource garden-system >/dev/null
}

gardener-resource-manager() {
  local shown="" state description end=$((SECONDS + 300))
  while IFS='|' read -r state description <<<"$(garden_state)" && [ "$state" != Succeeded ]; do
    [ -z "$description" ] || [ "$description" = "$shown" ] || step "Garden orchards: $description"
    shown=$description
    [ "$SECONDS" -lt "$end" ] || fail "wait for Garden orchards to be reconciled: not within 300 s: $state: $description"
    sleep 0.2
  done
  step "Garden orchards: $description"
  kubectl get garden orchards -o go-template='TASK{{"\t"}}STATE{{"\t"}}SINCE{{"\n"}}{{range .status.tasks -}}
{{.name}}{{"\t"}}{{.state}}{{"\t"}}{{.since}}{{"\n"}}{{end}}'

  step "gardens: its certificate authorities, in namespace garden"
  local name secret seconds
  kubectl -n garden get secrets -l 'manager-identity=gardener-operator,!bundle-for' \
    -o jsonpath='{range .items[*].metadata}{.labels.name} {.name} {.labels.valid-until-time}{"\n"}{end}' >"$scratch/secrets"
  printf 'CERTIFICATE AUTHORITY\tSECRET\tVALID UNTIL\n'
  while read -r name secret seconds; do
    [[ $name != ca* ]] || printf '%s\t%s\t%s\n' "$name" "$secret" "$(date --utc --date="@$seconds" +%FT%TZ)"
  done <"$scratch/secrets"

  kept_by_resource_manager
}

# garden_state: prints state and description of the last operation, or nothing until the operator has begun.
garden_state() {
  kubectl get garden orchards -o go-template='{{if not (index (or .metadata.annotations .metadata) "gardener.cloud/operation") -}}
{{with .status.lastOperation}}{{.state}}|{{.description}}{{end}}{{end}}'
}

kept_by_resource_manager() {
  condition garden garden-system ResourcesApplied True
  echo "its class is $(kubectl -n garden get managedresource garden-system -o jsonpath='{.spec.class}')"
  objects garden garden-system
  repaired "deleted PriorityClass gardener-garden-system-100" "DELETED*" "ADDED*" delete_class priorityclass gardener-garden-system-100
  sed 's/^  name: orchards$/  name: second/' examples/garden.yaml >"$scratch/second.yaml"
  local only="there can be only one operator.gardener.cloud/v1alpha1.Garden resource in the system at a time" answer
  answer=$(verdict "$only" apply --dry-run=server -f "$scratch/second.yaml")
  step "gardens: an administrator applies a second one: $answer"
}

[ "${BASH_SOURCE[0]}" != "$0" ] || for binary in "$@"; do "$binary"; done
