package exc

import (
	"cmp"
	"os"
	"path/filepath"
	"strings"

	"zino/pkg/config"
	"zino/pkg/mask"
	"zino/proto"
	"zino/services/exc/jobs"
)

const (
	// jobSocketEnv names the socket on which systemd starts a unit for each
	// supervisor of a job. Without it supervisors are children of this process.
	jobSocketEnv = "ZINO_JOB_SOCKET"
	// constellationEnv is "private" if the services end with the run that started
	// them.
	constellationEnv = "ZINO_CONSTELLATION"
)

// openJobs finds the jobs of this constellation.
func (s *Service) openJobs(cfg config.Exc, data string) (*jobs.Jobs, error) {
	runtime, _, _ := strings.Cut(os.Getenv("RUNTIME_DIRECTORY"), ":")
	runtime, err := filepath.Abs(cmp.Or(runtime, filepath.Dir(cfg.Socket)))
	if err != nil {
		return nil, err
	}
	return jobs.Open(jobs.Config{
		Dir: filepath.Join(data, "jobs"), Runtime: runtime, Socket: os.Getenv(jobSocketEnv),
		Private: os.Getenv(constellationEnv) == "private",
		Linger:  cfg.JobLinger.Value(), MaxAge: cfg.JobMaxAge.Value(), Orphan: cfg.OrphanTimeout.Value(),
		Mask:      func(with *proto.Masking) (*mask.Masker, error) { return s.masker(with, nil) },
		OutputMax: cfg.JobOutputMax, OutputBytes: cfg.OutputMax,
	}, s.host.tree, s.log)
}

// EndWith has all jobs stop when the other end of a pipe is closed; nil: when this
// process ends, unless they run in units. It must be called before the first request.
func (s *Service) EndWith(lifeline *os.File) error { return s.jobs.EndWith(lifeline) }
