# What a replica needs besides service.policy.hcl to watch files of jobs with `lockkeeper_watch` in their meta: it looks at names and
# dates, never at what is in a file. Without it everything else works, and `lockkeeper status` says what is missing.
# nomad acl policy apply -namespace default -job lockkeeper lockkeeper-watch <this file>

# Said for this namespace again, as in service.policy.hcl: where a rule names a namespace, that of "*" does not count.
namespace "default" {
  capabilities = ["read-fs", "read-job", "list-jobs"]
}

namespace "*" {
  capabilities = ["read-fs", "read-job", "list-jobs"]
}
