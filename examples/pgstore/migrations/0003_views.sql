-- What the records say, in the tables that the deployment bracket RFC sketches. They are views: the records are the truth, byte for
-- byte as the planner wrote them, and only their revisions make a decision safe.
CREATE FUNCTION tranche_elements(list jsonb) RETURNS SETOF jsonb LANGUAGE sql IMMUTABLE AS
    $$ SELECT jsonb_array_elements(CASE jsonb_typeof(list) WHEN 'array' THEN list ELSE '[]' END) $$;

CREATE VIEW bracket_version_group AS
    SELECT g ->> 'id' AS id, r.value ->> 'rule' AS bracket_rule_id, r.value ->> 'environment' AS environment_id,
           (g ->> 'openedAt')::timestamptz AS collection_started_at, (g ->> 'readyAt')::timestamptz AS collection_ends_at, g ->> 'status' AS status
    FROM tranche_record_text r, tranche_elements(r.value -> 'closed') AS g WHERE r.key LIKE 'bracket/group/%'
    UNION ALL
    SELECT value #>> '{collecting,id}', value ->> 'rule', value ->> 'environment', (value #>> '{collecting,openedAt}')::timestamptz, NULL, 'collecting'
    FROM tranche_record_text WHERE key LIKE 'bracket/group/%' AND value #>> '{collecting,id}' IS NOT NULL;

-- version_id is the newest version that was locked; NULL if the member had none.
CREATE VIEW bracket_version_group_member AS
    SELECT g ->> 'id' AS group_id, m ->> 'deployment' AS deployment_id, m #>> '{locks,0,id}' AS version_id, (g ->> 'readyAt')::timestamptz AS locked_at
    FROM tranche_record_text r, tranche_elements(r.value -> 'closed') AS g, tranche_elements(g -> 'members') AS m WHERE r.key LIKE 'bracket/group/%';

-- Executions that are open.
CREATE VIEW bracket_execution AS
    SELECT value ->> 'rule' AS bracket_rule_id, value ->> 'resource' AS resource_id, value #>> '{open,group}' AS group_id,
           value #>> '{open,environment}' AS environment_id, value #>> '{open,status}' AS status, (value #>> '{open,startedAt}')::timestamptz AS started_at
    FROM tranche_record_text WHERE key LIKE 'bracket/execution/%' AND value #>> '{open,group}' IS NOT NULL;

CREATE VIEW concurrency_lease AS
    SELECT l ->> 'pool' AS pool_key, l ->> 'resource' AS resource_id, l ->> 'group' AS group_id, (l ->> 'token')::numeric AS token, l ->> 'state' AS state,
           (l ->> 'since')::timestamptz AS since, (l ->> 'progressAt')::timestamptz AS progress_at
    FROM tranche_record_text r, tranche_elements(r.value -> 'leases') AS l WHERE r.key LIKE 'pool/%';
