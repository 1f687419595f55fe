FROM python:3.11-slim-bookworm

RUN apt-get update \
 && apt-get install -y --no-install-recommends openjdk-17-jre-headless tini libltdl7 \
 && rm -rf /var/lib/apt/lists/*

RUN useradd --create-home --uid 1000 tidemark && mkdir /data /secrets && chown tidemark /data /secrets && chmod 700 /data /secrets
WORKDIR /app
# The kernels' cache is a folder that the user can write: on a machine with another processor they are compiled anew.
ENV PYTHONUNBUFFERED=1 TIDEMARK_CACHE=/srv/tidemark TIDEMARK_HOME=/data NUMBA_CACHE_DIR=/srv/kernels

COPY requirements.txt .
RUN pip install --no-cache-dir --requirement requirements.txt

COPY . .
RUN python -m webapp.embedded.java_artifacts spark \
 && python -m replicator.kernels \
 && python -m webapp.worker.java_classes \
 && chown -R tidemark /data /srv/kernels

USER tidemark
ENTRYPOINT ["tini", "--"]
