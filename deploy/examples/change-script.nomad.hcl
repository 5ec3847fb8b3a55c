# change_mode = "script": the template itself tells lockkeeper, which restarts the allocations one after another. For who wants no
# file API in between, or must act on the moment of the render. The script is deploy/change-script.sh; it needs curl or wget.
#
#   nomad var put nomad/jobs/scripted password=one
#   nomad job run -var script="$(cat ../change-script.sh)" change-script.nomad.hcl
#   nomad var put -force nomad/jobs/scripted password=two    # five requests, five restarts, one at a time

variable "script" {
  type        = string
  description = "The text of deploy/change-script.sh."
}

job "scripted" {
  group "api" {
    count = 5

    update {
      max_parallel     = 1
      min_healthy_time = "5s"
      healthy_deadline = "2m"
    }

    network {
      port "http" {}
    }

    task "app" {
      driver = "raw_exec"

      config {
        command = "/bin/sh"
        args    = ["-c", "echo \"started with $(cat $NOMAD_SECRETS_DIR/app.env)\"; exec python3 -m http.server $NOMAD_PORT_http --directory $NOMAD_TASK_DIR"]
      }

      template {
        destination = "secrets/app.env"
        data        = "PASSWORD={{ with nomadVar \"nomad/jobs/scripted\" }}{{ .password }}{{ end }}\n"
        change_mode = "script"

        change_script {
          command       = "/bin/sh"
          args          = ["-c", "exec sh $NOMAD_TASK_DIR/change-script.sh"] # Nomad itself fills in nothing here.
          timeout       = "10s"
          fail_on_error = false
        }
      }

      template {
        destination     = "local/change-script.sh"
        data            = var.script
        left_delimiter  = "<<<" # The script is not a template.
        right_delimiter = ">>>"
        change_mode     = "noop"
      }

      # Where the replicas are, kept up to date by Nomad.
      template {
        destination = "local/lockkeeper"
        data        = "{{ range nomadService \"lockkeeper\" }}http://{{ .Address }}:{{ .Port }},{{ end }}"
        change_mode = "noop"
      }

      env {
        LOCKKEEPER_ADDR = "@${NOMAD_TASK_DIR}/lockkeeper"
      }

      # What the script shows to lockkeeper.
      identity {
        name = "lockkeeper"
        aud  = ["lockkeeper"]
        ttl  = "1h"
        file = true
      }

      service {
        name     = "scripted"
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
