package jobs

import (
	"context"
	"errors"
	"time"

	"zino/pkg/rpc"
	"zino/proto"
	"zino/services/exc/run"
)

const (
	waitDefault = 60  // seconds
	waitMax     = 600 // seconds
)

// Register adds the methods for jobs to r, which does not retire while one runs.
func (j *Jobs) Register(r *rpc.Server) {
	rpc.Handle(r, proto.ExcJobs, j.jobList)
	rpc.Handle(r, proto.ExcJobOutput, j.output)
	rpc.Handle(r, proto.ExcJobWait, j.waitFor)
	rpc.Handle(r, proto.ExcJobKeep, j.keep)
	rpc.Handle(r, proto.ExcJobLease, func(_ context.Context, req proto.LeaseJobs) (proto.Empty, error) {
		j.lease(req.Sessions)
		return proto.Empty{}, nil
	})
	r.KeepWhile(j.Running)
}

func (j *Jobs) jobList(ctx context.Context, req proto.ListJobs) (proto.JobList, error) {
	reply := proto.JobList{Jobs: []proto.JobInfo{}}
	for _, job := range j.list(req.SessionID) {
		job.fresh(ctx)
		reply.Jobs = append(reply.Jobs, job.Info())
	}
	return reply, nil
}

func (j *Jobs) output(ctx context.Context, req proto.ReadJob) (proto.JobText, error) {
	job, err := j.Get(req.Job, req.SessionID)
	if err != nil {
		return proto.JobText{}, err
	}
	m, err := j.cfg.Mask(req.Mask)
	if err != nil {
		return proto.JobText{}, err
	}
	job.fresh(ctx)
	job.mu.Lock()
	from := job.read
	job.mu.Unlock()
	if req.From != "" {
		if from, err = parsePlace(req.From); err != nil {
			return proto.JobText{}, err
		}
	}
	limit := j.cfg.OutputBytes
	if req.OutputBytes > 0 {
		limit = req.OutputBytes
	}
	text, next, err := job.since(from, min(limit, run.PacketRoom/12), m) // a control character takes six bytes in JSON
	if err == nil && req.From == "" {
		job.mu.Lock()
		job.read = next
		job.mu.Unlock()
	}
	return text, err
}

func (j *Jobs) waitFor(ctx context.Context, req proto.WaitJob) (proto.JobInfo, error) {
	job, err := j.Get(req.Job, req.SessionID)
	if err != nil {
		return proto.JobInfo{}, err
	}
	seconds := waitDefault
	if req.TimeoutS != nil {
		seconds = *req.TimeoutS
	}
	if seconds < 0 || seconds > waitMax {
		return proto.JobInfo{}, proto.Errorf(proto.CodeInvalid, "invalid timeout_s %d: use 0 to %d", seconds, waitMax)
	}
	within, cancel := context.WithTimeout(ctx, time.Duration(seconds)*time.Second)
	defer cancel()
	select {
	case <-job.done:
	case <-within.Done():
	case <-j.ctx.Done():
		return proto.JobInfo{}, errStopping
	}
	if err := ctx.Err(); err != nil {
		return proto.JobInfo{}, err
	}
	return job.Info(), nil
}

// errStopping is the error of requests that wait while exc stops: jobs run on.
var errStopping = &proto.Error{Code: proto.CodeUnavailable, Kind: proto.ErrorKindTransport, Message: "exc is stopping: try again"}

// Stop stops a job, and returns it when none of its processes is left.
func (j *Jobs) Stop(ctx context.Context, req proto.JobID) (proto.JobInfo, error) {
	job, err := j.Get(req.Job, req.SessionID)
	if err != nil {
		return proto.JobInfo{}, err
	}
	if err := job.Stop(ctx); err != nil {
		if j.ctx.Err() != nil {
			return proto.JobInfo{}, errStopping
		}
		return proto.JobInfo{}, errors.Join(err, ctx.Err())
	}
	return job.Info(), nil
}

func (j *Jobs) keep(_ context.Context, req proto.JobID) (proto.JobInfo, error) {
	job, err := j.Get(req.Job, req.SessionID)
	if err != nil {
		return proto.JobInfo{}, err
	}
	if err := job.Keep(); err != nil {
		return proto.JobInfo{}, err
	}
	return job.Info(), nil
}
