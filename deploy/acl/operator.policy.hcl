# What somebody needs who freezes and thaws rollouts: lockkeeper lock, unlock, resume, release, and who restarts
# jobs: lockkeeper restart. `default` is the namespace in which
# lockkeeper keeps its variables. A team gets the paths of its own namespace only: "lockkeeper/locks/<namespace>", and so on.

namespace "default" {
  # Of the jobs that are restarted, in their namespaces: which allocations run. To restart them yourself you need no right.
  capabilities = ["read-job"]

  variables {
    path "lockkeeper/locks" {
      capabilities = ["read", "list", "write", "destroy"]
    }
    path "lockkeeper/locks/*" {
      capabilities = ["read", "list", "write", "destroy"]
    }
    # To have allocations restarted, and to withdraw that.
    path "lockkeeper/requests/*" {
      capabilities = ["read", "list", "write", "destroy"]
    }
    # To see what is under way when a lock is put; to resume and to release by force.
    path "lockkeeper/semaphores/*" {
      capabilities = ["read", "list", "write"]
    }
  }
}
