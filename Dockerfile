FROM python:3.11-slim-bookworm

RUN apt-get update \
 && apt-get install -y --no-install-recommends openjdk-17-jre-headless tini \
 && rm -rf /var/lib/apt/lists/*

RUN useradd --create-home tidemark && mkdir /data && chown tidemark /data
WORKDIR /app
ENV PYTHONUNBUFFERED=1 TIDEMARK_CACHE=/srv/tidemark TIDEMARK_HOME=/data

COPY requirements.txt .
RUN pip install --no-cache-dir --requirement requirements.txt

COPY . .
RUN python -m webapp.embedded.java_artifacts spark \
 && chown -R tidemark /data

USER tidemark
ENTRYPOINT ["tini", "--"]
