/* The least that a client can be: connect to the socket named by the first
 * argument and write one request. Linked statically, it is the floor under the
 * command line's start. */
#include <arpa/inet.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static const char request[] = "{\"message\":\"hello there\"}";

int main(int argc, char **argv)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	char frame[4 + sizeof request - 1];
	char answer[4096];
	uint32_t length = htonl(sizeof request - 1);
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	if (argc != 2 || strlen(argv[1]) >= sizeof addr.sun_path) {
		fprintf(stderr, "usage: client SOCKET\n");
		return 2;
	}
	strcpy(addr.sun_path, argv[1]);
	memcpy(frame, &length, 4);
	memcpy(frame + 4, request, sizeof request - 1);
	if (fd < 0 || connect(fd, (struct sockaddr *)&addr, sizeof addr) < 0 || write(fd, frame, sizeof frame) < 0) {
		perror("client");
		return 1;
	}
	while (read(fd, answer, sizeof answer) > 0)
		;
	return 0;
}
