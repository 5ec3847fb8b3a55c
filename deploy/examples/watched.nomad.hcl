# Watched by the service: nothing runs beside the workload, and no image is changed. Lockkeeper looks at the dates of the files that
# `lockkeeper_watch` names; when one is newer than the running process, the allocations are restarted one after another.
#
#   nomad var put nomad/jobs/watched password=one certificate=A
#   nomad job run watched.nomad.hcl
#   nomad var put -force nomad/jobs/watched password=two certificate=A    # five restarts, one at a time
#   lockkeeper status
#
# The service needs deploy/acl/watch.policy.hcl for it.
job "watched" {
  meta {
    # In the directory of the task; `alloc/` is the one that the tasks of an allocation share.
    lockkeeper_watch = "secrets/app.env, alloc/tls/*.pem"
    # Files that change more often than this are picked up at the next restart (default 5m).
    lockkeeper_min_interval = "30s"
  }

  group "api" {
    count = 5

    # Its max_parallel, min_healthy_time, healthy_deadline and health_check are the policy of restarts, too.
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
        data        = "PASSWORD={{ with nomadVar \"nomad/jobs/watched\" }}{{ .password }}{{ end }}\n"
        change_mode = "noop"
      }

      # In the directory that all tasks of the allocation share.
      template {
        destination = "${NOMAD_ALLOC_DIR}/tls/app.pem"
        data        = "{{ with nomadVar \"nomad/jobs/watched\" }}{{ .certificate }}{{ end }}\n"
        change_mode = "noop"
      }

      # Renewed by Nomad in secrets/: nothing that matters to the process, so it is not watched.
      identity {
        name        = "app"
        aud         = ["app"]
        ttl         = "10m"
        file        = true
        change_mode = "noop"
      }

      service {
        name     = "watched"
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
