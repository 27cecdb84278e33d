/* Runs `sh -c true` as often as the first argument says, with vfork and
 * nothing else, and prints the CPU time of one run in nanoseconds, its own and
 * its children's: the floor under running code. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static double cpu(int who)
{
	struct rusage u;

	getrusage(who, &u);
	return (u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1e9 + (u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1e3;
}

int main(int argc, char **argv)
{
	char *command[] = {"sh", "-c", "true", NULL};
	int n = argc == 2 ? atoi(argv[1]) : 0;

	if (n < 1) {
		fprintf(stderr, "usage: vfork N\n");
		return 2;
	}
	for (int i = 0; i < n; i++) {
		int status;
		pid_t pid = vfork();

		if (pid == 0) {
			execv("/bin/sh", command);
			_exit(127);
		}
		if (pid < 0 || waitpid(pid, &status, 0) < 0 || status != 0) {
			perror("vfork");
			return 1;
		}
	}
	printf("%.0f\n", (cpu(RUSAGE_SELF) + cpu(RUSAGE_CHILDREN)) / n);
	return 0;
}
