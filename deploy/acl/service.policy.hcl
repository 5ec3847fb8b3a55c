# What a replica needs. Attach it to the job: nomad acl policy apply -namespace default -job lockkeeper lockkeeper-service <this file>
# `default` is the namespace in which lockkeeper keeps its variables (NOMAD_NAMESPACE).

namespace "default" {
  # Said here again: for the namespace that a rule names, that of "*" does not count.
  capabilities = ["read-job", "list-jobs", "alloc-lifecycle"]

  variables {
    path "lockkeeper/*" {
      capabilities = ["read", "list", "write", "destroy"]
    }
    # Operators lock, under their own tokens. Replicas see the locks, and remove one whose `until` is over.
    path "lockkeeper/locks" {
      capabilities = ["read", "list", "destroy"]
    }
    path "lockkeeper/locks/*" {
      capabilities = ["read", "list", "destroy"]
    }
    # Proves that the locks can be listed at all; locks nothing.
    path "lockkeeper/locks/~sentinel" {
      capabilities = ["read", "list", "write"]
    }
    path "lockkeeper/policies/*" {
      capabilities = ["read", "list"]
    }
  }
}

# The jobs that it gates: their policy, allocations, deployments and checks; alloc-lifecycle to restart, signal and stop what it is asked
# to (managed requests): without it those wait, and say so.
namespace "*" {
  capabilities = ["read-job", "list-jobs", "alloc-lifecycle"]
}

# Only for system jobs: nodes that are down or not eligible do not count.
node {
  policy = "read"
}
