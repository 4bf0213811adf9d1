# PostgreSQL with the contract of the official image: POSTGRES_USER, POSTGRES_PASSWORD, POSTGRES_DB, PGDATA.
FROM piherder-lab-slim:trixie
COPY postgres-entrypoint /usr/local/bin/
RUN chmod 755 /usr/local/bin/postgres-entrypoint \
 && ln -s /usr/lib/postgresql/*/bin/* /usr/local/bin/ \
 && install -d -o postgres -g postgres -m 700 /var/lib/postgresql/data
VOLUME /var/lib/postgresql/data
STOPSIGNAL SIGINT
ENTRYPOINT ["postgres-entrypoint"]
