# For run.nomad.hcl: what `nomad alloc restart` needs.
namespace "default" {
  capabilities = ["read-job", "alloc-lifecycle"]
}
