# Redis with the contract of the official image: the user redis, /data, a redis-server command line.
FROM piherder-lab-slim:trixie
RUN install -d -o redis -g redis -m 700 /data
VOLUME /data
WORKDIR /data
CMD ["redis-server"]
