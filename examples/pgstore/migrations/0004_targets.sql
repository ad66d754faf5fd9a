-- All jobs of a release target, those that have ended among them: they are counted whenever one is dispatched.
CREATE INDEX release_job_target ON release_job (resource_id, environment_id, deployment_id) WHERE deployment_id <> '';
