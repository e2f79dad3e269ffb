#!/bin/sh
# Writes where the files of a release come from: an in-toto statement with SLSA provenance 1.0, which names the commit, the
# program that built them, the versions of its tools, and each file with its checksum. It has no signature of its own; the
# release workflow signs SHA256SUMS, which includes this file, and attests each file.
#
#   usage: provenance.sh VERSION DIRECTORY > STATEMENT
set -eu
version=$1
directory=$2
here=$(cd "$(dirname "$0")" && pwd)
address=$("$here/address.sh")
script=$("$here/address.sh" source "$version")/packaging/release.sh
builder=$script#by-hand
[ -z "${GITHUB_WORKFLOW_REF:-}" ] || builder=$GITHUB_SERVER_URL/$GITHUB_WORKFLOW_REF
# Without a digest, files had changed since the last commit.
digest=
if commit=$(cd "$here" && git diff --quiet HEAD -- 2>/dev/null && git rev-parse HEAD); then
    digest=", \"digest\": {\"gitCommit\": \"$commit\"}"
fi
# tools: the field of each tool that is installed. cargo-auditable may not be.
tools() {
    for tool in rustc 'cargo auditable' tar gzip; do
        # The words of a tool are its command.
        shown=$($tool --version 2>/dev/null | head -n 1 | tr -d '"\\')
        [ -z "$shown" ] || printf '        "%s": "%s",\n' "$tool" "$shown"
    done | sed '$s/,$//'
}

cat <<STATEMENT
{
  "_type": "https://in-toto.io/Statement/v1",
  "subject": [
$(cd "$directory" && sha256sum -- * | sed 's/^\([0-9a-f]*\)  \(.*\)$/    {"name": "\2", "digest": {"sha256": "\1"}},/' | sed '$s/,$//')
  ],
  "predicateType": "https://slsa.dev/provenance/v1",
  "predicate": {
    "buildDefinition": {
      "buildType": "$script",
      "externalParameters": {"version": "$version", "repository": "$address"},
      "internalParameters": {
$(tools)
      },
      "resolvedDependencies": [{"uri": "git+$address"$digest}]
    },
    "runDetails": {"builder": {"id": "$builder"}}
  }
}
STATEMENT
