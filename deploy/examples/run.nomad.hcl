# lockkeeper run: a hold around any command. Here a task beside the workload restarts it every day, when it is its turn: whatever has to be
# done with an allocation, as long as it can be said as a command, is done to one after another, and the next one waits for health.
#
#   nomad acl policy apply -namespace default -job rolling restart-own-allocations restart.policy.hcl     # with ACLs
#   nomad job run -var lockkeeper=/opt/lockkeeper run.nomad.hcl
#
# `node` and `nomad` must be on the PATH of the clients.

variable "lockkeeper" {
  type        = string
  description = "The folder with dist/ and node_modules/ of lockkeeper on each client."
}

variable "every" {
  type    = number
  default = 86400
}

variable "nomad_addr" {
  type    = string
  default = "http://127.0.0.1:4646"
}

job "rolling" {
  group "api" {
    count = 3

    update {
      max_parallel     = 1
      min_healthy_time = "5s"
      healthy_deadline = "2m"
    }

    network {
      port "http" {}
    }

    task "every-day" {
      driver = "raw_exec"

      lifecycle {
        hook    = "poststart"
        sidecar = true
      }

      config {
        command = "/bin/sh"
        args    = ["-c", "while sleep ${var.every}; do node ${var.lockkeeper}/dist/bin.js run --task app --reason 'a new day' -- nomad alloc restart $NOMAD_ALLOC_ID app; done"]
      }

      template {
        destination = "local/lockkeeper"
        data        = "{{ range nomadService \"lockkeeper\" }}http://{{ .Address }}:{{ .Port }},{{ end }}"
        change_mode = "noop"
      }

      env {
        LOCKKEEPER_ADDR = "@${NOMAD_TASK_DIR}/lockkeeper"
        NOMAD_ADDR      = var.nomad_addr
      }

      # For `nomad alloc restart`: its own token, NOMAD_TOKEN in the environment.
      identity {
        env = true
      }

      # For lockkeeper.
      identity {
        name = "lockkeeper"
        aud  = ["lockkeeper"]
        ttl  = "1h"
        file = true
      }

      resources {
        cpu    = 50
        memory = 128
      }
    }

    task "app" {
      driver = "raw_exec"

      config {
        command = "/bin/sh"
        args    = ["-c", "exec python3 -m http.server $NOMAD_PORT_http --directory $NOMAD_TASK_DIR"]
      }

      service {
        name     = "rolling"
        port     = "http"
        provider = "nomad"

        check {
          type     = "http"
          path     = "/"
          interval = "2s"
          timeout  = "1s"
        }
      }

      resources {
        cpu    = 50
        memory = 64
      }
    }
  }
}
