-- The host's jobs, and the members of the pools in which they count.
--
-- Instants are nanoseconds since 1970: a timestamptz keeps microseconds, and a job that was rounded down would be older than its lease.
CREATE TABLE release_job (
    run          text COLLATE "C" PRIMARY KEY CHECK (run <> '' AND octet_length(run) <= 2048),
    resource_id  text COLLATE "C" NOT NULL CHECK (resource_id <> ''),
    environment_id text COLLATE "C" NOT NULL,
    deployment_id  text COLLATE "C" NOT NULL, -- empty: no plan started it
    version_id   text NOT NULL,
    group_id     text COLLATE "C" NOT NULL,
    status       text NOT NULL,
    created_ns   bigint,
    completed_ns bigint,
    -- A status that nobody knows is active: such a job may still be disrupting its resource.
    active       boolean NOT NULL GENERATED ALWAYS AS (status NOT IN ('successful', 'failure', 'cancelled', 'skipped',
                     'invalidJobAgent', 'invalidIntegration', 'externalRunNotFound')) STORED,
    CHECK (octet_length(resource_id) + octet_length(environment_id) + octet_length(deployment_id) <= 2048)
);

-- At most one active job on a release target, however many controllers there are.
CREATE UNIQUE INDEX release_job_busy ON release_job (resource_id, environment_id, deployment_id) WHERE active AND deployment_id <> '';
CREATE INDEX release_job_active ON release_job (resource_id) WHERE active;

CREATE TABLE concurrency_pool (
    key text COLLATE "C" PRIMARY KEY
);

CREATE TABLE concurrency_pool_member (
    pool_key    text COLLATE "C" NOT NULL REFERENCES concurrency_pool(key) ON DELETE CASCADE,
    resource_id text COLLATE "C" NOT NULL,
    PRIMARY KEY (pool_key, resource_id)
);
