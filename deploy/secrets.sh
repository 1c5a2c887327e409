#!/bin/sh
# Makes the secrets that the pods read, with random values, where they are not there yet. Run it again at any time: nothing is replaced.
# With External Secrets (overlay `ha`) they come from your own store instead.
#   sh deploy/secrets.sh [NAMESPACE]
set -eu
namespace=${1:-lodestone}

random() { od -An -N32 -tx1 /dev/urandom | tr -d ' \n'; }

# NAME [OPTION…], its content on standard input: no secret stands on a command line.
make() {
  name=$1
  shift
  if kubectl --namespace "$namespace" get secret "$name" >/dev/null 2>&1; then
    echo "secret/$name is there"
    cat >/dev/null
  else
    kubectl --namespace "$namespace" create secret generic "$name" "$@" --from-env-file=/dev/stdin
  fi
}

printf 'auth_token=%s\n' "$(random)" | make lodestone-ray
printf 'api_key=%s\n' "$(random)" | make lodestone-qdrant
printf 'password=%s\n' "$(random)" | make lodestone-redis
printf 'username=lodestone\npassword=%s\n' "$(random)" | make lodestone-catalog --type=kubernetes.io/basic-auth
