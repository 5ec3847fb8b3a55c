# Lockkeeper as a Nomad service job: two replicas, no infrastructure besides Nomad.
#
#   nomad acl policy apply -namespace default -job lockkeeper lockkeeper-service deploy/acl/service.policy.hcl
#   nomad job run -var lockkeeper=/opt/lockkeeper deploy/lockkeeper.nomad.hcl
#
# It listens on the address that Nomad gives to the port, and asks everybody who they are: workloads by an identity block with
# aud = ["lockkeeper"], operators by their Nomad token. There is no TLS yet.

variable "lockkeeper" {
  type        = string
  description = "The folder with dist/ and node_modules/ of lockkeeper on each client; Node 20.19 or later must be on the PATH."
}

variable "nomad_addr" {
  type        = string
  default     = "http://127.0.0.1:4646"
  description = "Nomad's API as seen from the replicas: the agent of their own machine, or several servers with commas between them."
}

job "lockkeeper" {
  type = "service"

  group "replica" {
    count = 2

    network {
      port "http" {}
    }

    update {
      max_parallel     = 1
      min_healthy_time = "10s"
      healthy_deadline = "2m"
    }

    service {
      name     = "lockkeeper"
      provider = "nomad"
      port     = "http"

      check {
        type     = "http"
        path     = "/health/ready"
        interval = "5s"
        timeout  = "2s"
      }
    }

    task "lockkeeper" {
      driver = "raw_exec"

      config {
        command = "node"
        args = [
          "${var.lockkeeper}/dist/bin.js", "serve",
          "--listen", "${NOMAD_IP_http}:${NOMAD_PORT_http}",
          "--auth", "identity",
        ]
      }

      # Its own token, with the policy that is attached to the job; the file is read again whenever it changes.
      identity {
        env  = false
        file = true
      }

      env {
        NOMAD_ADDR       = var.nomad_addr
        NOMAD_TOKEN_FILE = "${NOMAD_SECRETS_DIR}/nomad_token"
        LOCKKEEPER_NAME  = "${NOMAD_ALLOC_NAME}"
      }

      kill_signal  = "SIGTERM"
      kill_timeout = "20s"

      resources {
        cpu    = 200
        memory = 256
      }
    }
  }
}
