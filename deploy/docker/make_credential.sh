#!/bin/sh
# Makes the secret of a platform in a folder, once: a file for the services, and the configuration of NATS with it.
# HEADRACE_CREDENTIAL, where it is set, replaces what is there.
set -eu
folder=$1
secret=${HEADRACE_CREDENTIAL:-}
if [ -z "$secret" ] && [ -s "$folder/credential" ]; then
    secret=$(cat "$folder/credential")
fi
if [ -z "$secret" ]; then
    secret=hr-$(od -An -tx1 -N24 /dev/urandom | tr -d ' \n')
fi
case $secret in
*[!A-Za-z0-9._~-]*)
    echo "HEADRACE_CREDENTIAL should have letters, digits and . _ ~ - only: make one with \`openssl rand -hex 24\`" >&2
    exit 78
    ;;
esac
if [ "${#secret}" -lt 16 ]; then
    echo "HEADRACE_CREDENTIAL is too short to be a secret: make one with \`openssl rand -hex 24\`" >&2
    exit 78
fi

# Each file is whole or not there. The group, which the services are in, reads the first; NATS owns both.
umask 027
printf '%s\n' "$secret" >"$folder/credential.new"
umask 077
printf 'authorization { token: "%s" }\n' "$secret" >"$folder/nats.conf.new"
mv "$folder/credential.new" "$folder/credential"
mv "$folder/nats.conf.new" "$folder/nats.conf"
