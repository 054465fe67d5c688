-- Views over the log of all jobs (SCR_LOG_DB_HOST), for MariaDB 10.6 and later. Once, as a user
-- who may create views and indexes:
--
--     mariadb scrlog < views.sql
--
-- The tables have to be there, which the first job makes, or `scr_log_event`; then this can be
-- repeated at any time. Of the views, Grafana's user needs SELECT only. Times are in UTC:
-- in Grafana, set the session time zone of the data source to +00:00.

CREATE INDEX IF NOT EXISTS scr_events_by_job ON events (job_id, time);
CREATE INDEX IF NOT EXISTS scr_transfers_by_job ON transfers (job_id, time);
CREATE INDEX IF NOT EXISTS scr_phases_by_job ON phases (job_id, time);
CREATE INDEX IF NOT EXISTS scr_runs_by_job ON runs (job_id, time);

-- One job may have several rows in jobs, such as one without a name. Its number is the first.
CREATE OR REPLACE VIEW scr_job_ids AS
    SELECT id AS job_id, MIN(id) OVER (PARTITION BY username, jobid, prefix) AS job FROM jobs;

CREATE OR REPLACE VIEW scr_events AS
    SELECT i.job, e.* FROM events e JOIN scr_job_ids i USING (job_id);

-- Every entry of the log: when, and of which job.
CREATE OR REPLACE VIEW scr_signs AS
    SELECT i.job, s.time, s.type FROM scr_job_ids i JOIN (
        SELECT job_id, time, type FROM events UNION ALL
        SELECT job_id, time, type FROM transfers UNION ALL
        SELECT job_id, time, type FROM phases UNION ALL
        SELECT job_id, time, type FROM runs) s USING (job_id);

-- Runs that have not ended by themselves: scr_run says so, or the next run of the job does.
CREATE OR REPLACE VIEW scr_failures AS
    SELECT f.*, (
        -- Survived is one after which the next run that began to compute has restarted from a checkpoint.
        SELECT e.type = 'RESTART_SUCCESS' FROM scr_events e
        WHERE e.job = f.job AND e.time > f.time AND e.type IN ('RESTART_SUCCESS', 'RESTART_NONE') ORDER BY e.time, e.id LIMIT 1
    ) IS TRUE AS survived
    FROM (
        SELECT i.job, r.time, r.nodes, r.status, r.signum, r.note FROM runs r JOIN scr_job_ids i USING (job_id)
        WHERE r.type = 'RUN_END' AND r.status <> 0 AND NOT EXISTS (
            SELECT 1 FROM scr_events e WHERE e.job = i.job AND e.type IN ('FINALIZE_END', 'HALT') AND e.time BETWEEN r.start AND r.time)
        UNION ALL
        SELECT e.job, e.time, NULL, NULL, NULL, e.note FROM scr_events e
        WHERE e.type = 'EARLIER_RUN_DIED' AND NOT EXISTS (
            SELECT 1 FROM runs r JOIN scr_job_ids i USING (job_id) WHERE i.job = e.job AND r.type = 'RUN_END')
    ) f;

-- Nodes that were lost.
CREATE OR REPLACE VIEW scr_lost_nodes AS
    SELECT job, time, SUBSTRING_INDEX(note, ':', 1) AS node, note FROM scr_events WHERE type = 'NODE_FAIL';

-- Restarts, with the time at which the checkpoint was begun; from the beginning: with the epoch.
CREATE OR REPLACE VIEW scr_restarts AS
    SELECT r.job, r.time, r.name, COALESCE((
        SELECT MAX(c.time) FROM scr_events c
        WHERE c.job = r.job AND c.name = r.name AND c.time < r.time AND c.type IN ('CHECKPOINT_START', 'OUTPUT_START')
    ), '1970-01-01') AS since
    FROM scr_events r WHERE r.type IN ('RESTART_SUCCESS', 'RESTART_NONE');

-- How many nodes a job used at most; 1 if the log does not say.
CREATE OR REPLACE VIEW scr_nodes AS
    SELECT i.job, COALESCE(MAX(r.nodes), 1) AS nodes FROM scr_job_ids i LEFT JOIN runs r USING (job_id) GROUP BY i.job;

-- Node-hours: spent is the time in which runs have waited for checkpoints and restarts
-- (flushes for which programs wait are not in it); saved is, at each restart, what was computed
-- up to the checkpoint and not computed again before.
CREATE OR REPLACE VIEW scr_hours AS
    SELECT j.job, (SELECT n.nodes FROM scr_nodes n WHERE n.job = j.job) AS nodes,
        (SELECT n.nodes / 3600e0 FROM scr_nodes n WHERE n.job = j.job) * COALESCE((
            SELECT SUM(e.secs) FROM scr_events e WHERE e.job = j.job
            AND e.type IN ('CHECKPOINT_END', 'OUTPUT_END', 'INIT_END', 'RESTART_SUCCESS')), 0) AS spent,
        (SELECT n.nodes / 3600e0 FROM scr_nodes n WHERE n.job = j.job) * COALESCE((
            SELECT SUM(c.secs) FROM scr_restarts r JOIN scr_events c ON c.job = r.job AND c.type = 'COMPUTE_END' AND c.time <= r.since
            WHERE r.job = j.job AND NOT EXISTS (
                SELECT 1 FROM scr_restarts b WHERE b.job = r.job AND b.since < c.time AND c.time < b.time AND b.time < r.time)), 0) AS saved
    FROM (SELECT DISTINCT job FROM scr_job_ids) j;

-- Bytes that programs have written to caches, of these to the parallel file system, and avoided.
CREATE OR REPLACE VIEW scr_bytes AS
    SELECT i.job, SUM(IF(t.type = 'ENCODE', t.bytes, 0)) AS written, SUM(IF(t.type IN ('FLUSH', 'SCAVENGE'), t.bytes, 0)) AS flushed,
        GREATEST(SUM(IF(t.type = 'ENCODE', t.bytes, 0)) - SUM(IF(t.type IN ('FLUSH', 'SCAVENGE'), t.bytes, 0)), 0) AS avoided
    FROM transfers t JOIN scr_job_ids i USING (job_id) GROUP BY i.job;

-- One row a job.
CREATE OR REPLACE VIEW scr_jobs AS
    SELECT i.job, MAX(j.username) AS username, MAX(j.jobid) AS jobid, MAX(j.jobname) AS jobname, MAX(j.cluster) AS cluster, MAX(j.prefix) AS prefix,
        (SELECT MIN(s.time) FROM scr_signs s WHERE s.job = i.job) AS began,
        (SELECT MAX(s.time) FROM scr_signs s WHERE s.job = i.job) AS last_sign,
        (SELECT COUNT(*) FROM scr_events e WHERE e.job = i.job AND e.type = 'CHECKPOINT_END') AS checkpoints,
        (SELECT COUNT(*) FROM scr_events e WHERE e.job = i.job AND e.type = 'FLUSH_SUCCESS') AS flushes,
        (SELECT COUNT(*) FROM scr_failures f WHERE f.job = i.job) AS failures,
        (SELECT COUNT(*) FROM scr_failures f WHERE f.job = i.job AND f.survived) AS survived,
        (SELECT COUNT(*) FROM scr_lost_nodes n WHERE n.job = i.job) AS lost_nodes
    FROM scr_job_ids i JOIN jobs j ON j.id = i.job_id GROUP BY i.job;

-- Checkpoints that may still be in the caches of nodes: of jobs that have logged nothing for a day,
-- neither ended by themselves nor were scavenged, and whose newest checkpoint was not flushed.
CREATE OR REPLACE VIEW scr_stale_caches AS
    SELECT j.job, j.username, j.jobid, j.cluster, j.prefix, j.last_sign, t.name, t.bytes, t.from_dir AS cache
    FROM scr_jobs j JOIN scr_job_ids i USING (job) JOIN transfers t USING (job_id)
    WHERE j.last_sign < UTC_TIMESTAMP() - INTERVAL 1 DAY AND t.type = 'ENCODE'
    AND NOT EXISTS (SELECT 1 FROM transfers u JOIN scr_job_ids k USING (job_id) WHERE k.job = j.job AND u.time > t.time AND u.type IN ('ENCODE', 'SCAVENGE'))
    AND NOT EXISTS (SELECT 1 FROM transfers u JOIN scr_job_ids k USING (job_id) WHERE k.job = j.job AND u.name = t.name AND u.time >= t.time AND u.type = 'FLUSH')
    AND NOT EXISTS (SELECT 1 FROM scr_events e WHERE e.job = j.job AND e.type = 'FINALIZE_END' AND e.time > t.time);
